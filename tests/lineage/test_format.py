"""The format of a receipt and of the definitions beside it."""

import json
from pathlib import Path

import pytest
from support.small_jobs import check_alone, edit, job, make, state

from rtm.cli.lineage import accept, why
from rtm.core.errors import UserError

pytestmark = pytest.mark.usefixtures("package")


@pytest.mark.parametrize("text", ["[]", "{}", "\xff", '{"fingerprint": "x", "parts": {}, "outputs": {}, "made": {}}'])
def test_a_broken_receipt_is_named(text: str) -> None:
    made = job("train")
    make(made)
    made.receipt.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"lineage/train/x\.json is damaged .* delete it"):
        state(made)
    with pytest.raises(UserError, match=r"^train/x: lineage/train/x\.json is damaged"):
        check_alone(made)


def test_code_that_is_lost_is_named(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = job("train")
    make(made)
    (code,) = Path("lineage/code").iterdir()
    assert json.loads(made.receipt.read_text())["parts"]["code"] == code.stem
    code.write_text(code.read_text().replace("rtm.third:all", "rtm.other:all"))  # names are only for people
    edit(package, "third", "return 2", "return 1 + 1")
    code.write_text(code.read_text().replace('"own": "', '"own": "0'))
    with pytest.raises(UserError, match=r"lineage/code/\w+\.json: its name does not follow from its content"):
        check_alone(made)
    why([made])
    assert f"code changed, and {code} is missing or damaged" in capsys.readouterr().out
    with pytest.raises(UserError, match="is missing or damaged"):
        accept([made], "no")
