"""A job: its name, its command, its inputs, and the files that later jobs do not depend on."""

from pathlib import Path

import pytest
from support import PARAMS
from support.small_jobs import ENTRY, job, make, state

from rtm.config import load
from rtm.core.files import write_json
from rtm.lineage.job import Job, Stage, Subject
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.recording import recorded
from rtm.pipeline.graph import LIGHT, every_job, jobs


def test_the_test_split_is_no_part_of_what_trainings_depend_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("paper", PARAMS)
    monkeypatch.chdir(tmp_path)
    graph = jobs(config)
    job, training = graph["fetch/cifar10"], graph["train/cifar10_imle_rtm/seed0"]
    assert [path.name for path in job.outputs] == ["images.npy", "labels.npy", "test_images.npy", "test_labels.npy"]

    def fingerprint(changed: str = "") -> str:
        outputs = {str(path): {"md5": "new" if path.name == changed else "old", "size": 1} for path in job.outputs}
        parts: dict[str, object] = {"params": {}, "code": "", "inputs": {}}
        write_json(job.receipt, {"fingerprint": "", "parts": parts, "outputs": outputs, "made": {}})
        return Ledger().fingerprint(training)

    assert fingerprint("test_images.npy") == fingerprint("test_labels.npy") == fingerprint()
    assert fingerprint("images.npy") != fingerprint()


@pytest.mark.usefixtures("package")
def test_only_what_draws_curves_depends_on_them() -> None:
    weights, curve = Path("out/weights"), Path("out/curve.csv")
    subject = Subject(experiment="x")
    train = Job("paper", "", Stage.TRAIN, subject, {}, (ENTRY,), (), (weights, curve), LIGHT, volatile=(curve,))
    readers = [job("evaluate", train), job("figure", train)]

    def trained(seconds: str) -> None:
        with recorded(train):
            weights.parent.mkdir(exist_ok=True)
            weights.write_text("weights")
            curve.write_text(seconds)

    trained("3.1 s")
    for reader in readers:
        make(reader)
    trained("4.2 s")
    assert [state(reader) for reader in readers] == [State.FRESH, State.STALE]


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (Subject(), "index"),
        (Subject(experiment="x", seed=0), "x/seed0"),
        (Subject(seed=3, protocol="paper", experiment="x"), "x/paper/seed3"),
        (Subject(dataset="digits", protocol="paper"), "digits/paper"),
    ],
)
def test_the_name_of_a_job_has_the_parts_of_its_subject(subject: Subject, name: str) -> None:
    assert subject.name == name


def test_jobs_of_one_repository_have_names_and_files_of_their_own() -> None:
    every = list(every_job(PARAMS).values())
    assert len({job.id for job in every}) == len(every) > 100
    owned = [path for job in every for path in (*job.outputs, job.receipt)]
    assert len(set(owned)) == len(owned)


def test_the_jobs_before_come_first_and_each_once() -> None:
    fetch = job("fetch")
    reference, train = job("reference", fetch), job("train", fetch)
    evaluate = job("evaluate", train, reference)
    assert list(evaluate.upstream()) == [fetch, train, reference, evaluate]
    for each in every_job(PARAMS).values():
        ids = [before.id for before in each.upstream()]
        assert len(set(ids)) == len(ids) and ids[-1] == each.id


def test_the_receipt_of_what_is_temporary_goes_with_it() -> None:
    assert job("sample", temporary=True).receipt == Path("samples/receipt.json")
    assert job("train").receipt == Path("lineage/train/x.json")
