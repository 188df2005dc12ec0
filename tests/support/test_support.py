"""The helpers of the other tests must be able to fail."""

import signal
import subprocess
from itertools import count

import pytest
from support import waiting
from support.processes import none_left
from support.waiting import wait_for


def test_a_process_left_behind_is_killed_and_named() -> None:
    with pytest.raises(pytest.fail.Exception, match="left behind") as failure, none_left("test", grace=0.1):
        words = ["sh", "-c", "sleep 600 & echo begun; wait"]
        left = subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE)
        with left.stdout or pytest.fail("no output") as output:
            assert output.readline() == b"begun\n"  # a starting process has no environment yet
    assert left.wait() == -signal.SIGKILL
    assert "sleep 600" in str(failure.value)


def test_a_process_that_ends_in_time_is_no_failure() -> None:
    with none_left("test"):
        process = subprocess.Popen(["sleep", "0.2"])
    assert process.wait() == 0


def test_waiting_ends_with_the_condition_or_with_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_EVERY", 0.1)
    number = count()
    assert wait_for(lambda: next(number) > 3, lambda: None, standstill=5)
    with pytest.raises(pytest.fail.Exception, match=r"Nothing has changed for 0 seconds:\nstep 7"):
        wait_for(lambda: False, lambda: "step 7", standstill=0)
