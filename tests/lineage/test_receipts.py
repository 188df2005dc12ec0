"""Fingerprints, receipts and freshness, and what is accepted as the same."""

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from rtm.cli.lineage import accept, check, tell, why
from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.lineage import equivalence, fingerprint, hashes
from rtm.lineage.fingerprint import present
from rtm.lineage.job import Job, Keeper, Stage, Subject
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.recording import recorded
from rtm.pipeline.graph import LIGHT

ENTRY = "rtm.first:main"
CODE = {
    "first": "from rtm.second import used\nfrom rtm import third\n\n\ndef main():\n    return used() + third.all()\n",
    "second": "LIMIT = 3\n\n\ndef used():\n    return LIMIT\n\n\ndef unused():\n    return 1\n",
    "third": "def all():\n    return 2\n",
    "errors": "def message():\n    return 1\n",
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small package in place of rtm/, in a folder of its own."""
    folder = tmp_path / "rtm"
    folder.mkdir()
    for name, text in CODE.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(fingerprint, "PACKAGE", folder)
    monkeypatch.chdir(tmp_path)
    forget()
    yield folder
    forget()


def forget() -> None:
    present.cache_clear()


def job(stage: str, *inputs: Job, temporary: bool = False, **params: Any) -> Job:
    output = Path("samples") if temporary else Path(f"out/{stage}.txt")
    keeper: Keeper = "nobody" if stage in ("reference", "sample") else "git"
    made = (Subject(experiment="x"), params, (ENTRY,), inputs, (output,), LIGHT, keeper, temporary)
    return Job("paper", "", Stage(stage), *made)


def make(made: Job, text: str = "text") -> None:
    with recorded(made):
        path = made.outputs[0] / "native.npy" if made.temporary else made.outputs[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def state(made: Job) -> State:
    return Ledger().state(made)


# freshness


def test_a_finished_job_is_fresh_until_a_part_changes() -> None:
    assert state(job("train", lr=1)) is State.STALE
    make(job("train", lr=1))
    assert state(job("train", lr=1)) is State.FRESH
    assert state(job("train", lr=2)) is State.STALE
    assert Ledger().why(job("train", lr=2, new=None)) == ["lr: 1 -> 2"]


def test_differences_are_named_by_place() -> None:
    make(job("train", recipe={"betas": [0.5, 0.9], "lr": 1}, blocks=[1, 2]))
    reasons = Ledger().why(job("train", recipe={"betas": [0.5, 0.99], "lr": 1}, blocks=[1, 2, 3]))
    assert reasons == ["blocks: [1, 2] -> [1, 2, 3]", "recipe.betas[1]: 0.9 -> 0.99"]


def test_what_takes_gpus_is_made_on_a_cluster() -> None:
    training = dataclasses.replace(job("train"), compute=Resources(gpus=4, cpus=1, mem_gb=1, hours=1))
    table = job("table", training)
    assert Ledger().advice(table) == "Make it with `snakemake --profile slurm -- out/table.txt`."
    make(training)
    assert Ledger().advice(table) == "Make it with `snakemake --cores all -- out/table.txt`."


@pytest.mark.parametrize(("given", "recorded_as"), [("", None), ("cluster", "cluster")])
def test_the_name_of_the_host_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, given: str, recorded_as: str | None
) -> None:
    monkeypatch.setenv("RTM_HOST", given)
    make(job("train"))
    assert json.loads(job("train").receipt.read_text())["made"].get("host") == recorded_as
    assert state(job("train")) is State.FRESH


def test_a_failed_job_leaves_no_receipt() -> None:
    with pytest.raises(RuntimeError), recorded(job("train")):
        raise RuntimeError
    assert not job("train").receipt.exists()


def test_the_fingerprint_is_that_of_the_start(package: Path) -> None:
    with recorded(job("train")):
        (package / "third.py").write_text("def all():\n    return 9\n")
        Path("out").mkdir()
        Path("out/train.txt").write_text("text")
    forget()
    assert Ledger().why(job("train")) == ["code of rtm.third:all changed"]


def test_the_same_bytes_again_leave_those_after_fresh() -> None:
    train = job("train", lr=1)
    evaluate = job("evaluate", train)
    make(train)
    make(evaluate)
    receipt = train.receipt.read_text()
    make(train)
    assert train.receipt.read_text() == receipt
    assert state(evaluate) is State.FRESH
    make(train, "other")
    assert Ledger().why(evaluate) == ["train/x has a new result"]


def test_a_reference_made_again_elsewhere_keeps_its_identity() -> None:
    def chain(resize: str = "none") -> Job:
        return job("evaluate", job("reference", resize=resize))

    (reference,) = chain().inputs
    make(reference)
    make(chain())
    for text in ("rounded otherwise", "otherwise again"):
        reference.outputs[0].unlink()
        make(reference, text)
        assert state(reference) is State.FRESH and state(chain()) is State.FRESH
    make(chain("tf1").inputs[0], "other features")
    assert Ledger().why(chain("tf1")) == ["reference/x has a new result"]


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


def test_staleness_propagates() -> None:
    make(job("train", lr=1))
    make(job("evaluate", job("train", lr=1)))
    after = job("table", job("evaluate", job("train", lr=2)))
    assert state(after.inputs[0]) is State.STALE
    assert Ledger().why(after) == ["it was never made", "evaluate/x is stale"]


def test_absent_outputs_keep_those_after_fresh() -> None:
    train = job("train")
    make(train)
    make(job("evaluate", train))
    train.outputs[0].unlink()
    assert state(train) is State.ABSENT
    assert state(job("evaluate", train)) is State.FRESH


def test_changed_outputs_are_named() -> None:
    train = job("train")
    make(train)
    train.outputs[0].write_text("TEXT")
    assert state(train) is State.CHANGED
    with pytest.raises(UserError, match=r"out/train\.txt is not the recorded one.*dvc checkout"):
        Ledger().verify(train)
    with pytest.raises(UserError, match="evaluate/x needs train/x"):
        make(job("evaluate", train))


def test_hashes_that_cannot_be_saved_fail_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "HASHES", Path("in_the_way/md5.json"))
    Path("in_the_way").touch()
    make(job("train"))
    assert state(job("train")) is State.FRESH


def test_a_touched_file_is_fresh() -> None:
    make(job("train"))
    Path("out/train.txt").touch()
    assert state(job("train")) is State.FRESH


def test_a_receipt_that_lies_is_found() -> None:
    made = job("train", lr=1)
    make(made)
    receipt = json.loads(made.receipt.read_text())
    receipt["parts"]["params"]["lr"] = 2
    made.receipt.write_text(json.dumps(receipt))
    assert state(job("train", lr=2)) is State.STALE
    assert "was edited" in Ledger().why(job("train", lr=2))[0]


@pytest.mark.parametrize("text", ["[]", "{}", "\xff", '{"fingerprint": "x", "parts": {}, "outputs": {}, "made": {}}'])
def test_a_broken_receipt_is_named(text: str) -> None:
    made = job("train")
    make(made)
    made.receipt.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"lineage/train/x\.json is damaged .* delete it"):
        state(made)
    with pytest.raises(UserError, match=r"^train/x: lineage/train/x\.json is damaged"):
        check_alone(made)


@pytest.mark.parametrize(
    ("stage", "folder", "advice"),
    [
        ("fetch", "weights", "^Make it with `snakemake --cores all -- weights/x`"),
        ("reference", "features", "^Make it with `snakemake --cores all -- features/x`"),
        ("fetch", "data", "^Bring the recorded one back with `dvc checkout data/x`"),
    ],
)
def test_the_advice_is_what_works(stage: str, folder: str, advice: str) -> None:
    keeper: Keeper = "dvc" if folder == "data" else "nobody"
    made = replaced(job(stage), outputs=(Path(folder) / "x",), keeper=keeper)
    make(made)
    made.outputs[0].write_text("TEXT")
    ledger = Ledger()
    assert ledger.state(made) is State.CHANGED and re.match(advice, ledger.advice(made))


def test_a_lost_training_is_not_repeated() -> None:
    train = job("train")
    make(train)
    train.outputs[0].unlink()
    with pytest.raises(UserError, match="dvc pull out"):
        make(train)
    run = Path("runs/x", Ledger().fingerprint(train)[:16])
    run.mkdir(parents=True)
    with pytest.raises(UserError, match="dvc pull out"):
        make(train)
    (run / "state.prev.pt").touch()  # unless its state is here
    make(train)
    assert state(train) is State.FRESH


def test_a_training_that_lost_its_receipt_is_not_repeated() -> None:
    train = job("train")
    weights = train.outputs[0]
    weights.parent.mkdir()
    save_file({"w": np.zeros(1)}, weights, {"rtm": json.dumps({"run": Ledger().fingerprint(train)})})
    message = r"train/x is trained, but it has no receipt: bring it back with `git checkout -- lineage/train/x\.json`"
    with pytest.raises(UserError, match=message):
        make(train)
    save_file({"w": np.zeros(1)}, weights, {"rtm": json.dumps({"run": "another"})})
    make(train)
    assert state(train) is State.FRESH


def test_temporary_jobs_count_as_parts_of_the_next() -> None:
    def evaluate(samples: int) -> Job:
        return job("evaluate", job("sample", job("train"), temporary=True, samples=samples), k=3)

    first = evaluate(10)
    for made in (*first.inputs[0].inputs, *first.inputs, first):
        make(made)
    (Path("samples") / "native.npy").unlink()
    (Path("samples") / "receipt.json").unlink()
    Path("samples").rmdir()
    assert state(first) is State.FRESH
    assert Ledger().why(evaluate(20)) == ["sample.samples: 10 -> 20"]


def test_samples_of_other_parameters_are_refused() -> None:
    train = job("train")
    make(train)
    make(job("sample", train, temporary=True, samples=10))
    with pytest.raises(
        UserError, match=r"evaluate/x needs sample/x: samples: 10 -> 20.*--cores all --notemp -- samples"
    ):
        make(job("evaluate", job("sample", train, temporary=True, samples=20)))


def test_reports_show_what_is_there_and_stay_stale() -> None:
    table = job("table", job("summary"))
    make(table)
    assert state(table) is State.STALE


def edit(package: Path, name: str, old: str, new: str) -> None:
    path = package / f"{name}.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    forget()


def test_accept_keeps_a_refactoring_and_nothing_else(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = job("train", lr=1)
    make(made)
    receipt = made.receipt.read_text()
    edit(package, "third", "return 2", "return 1 + 1")
    assert Ledger().why(made) == ["code of rtm.third:all changed"]
    accept([made], "the same sum")
    assert re.search(r"^train/x: keeps its result\nrtm.third:all \(\w+\) is rtm.third:all", capsys.readouterr().out)
    assert state(made) is State.FRESH and made.receipt.read_text() == receipt
    (line,) = map(json.loads, equivalence.FILE.read_text().splitlines())
    assert line["reason"] == "the same sum" and line["a"]["own"] != line["b"]["own"]
    assert line.keys() == {"a", "b", "below", "reason", "author", "revision", "time"}
    accept([made], "again")
    assert "Nothing was stale" in capsys.readouterr().out
    with pytest.raises(UserError, match="lr has another value"):
        accept([job("train", lr=2)], "no")
    tell(made)
    assert "the same sum" in capsys.readouterr().out
    edit(package, "third", "return 1 + 1", "return 3")
    assert Ledger().why(made) == ["code of rtm.third:all changed"]


def test_parameters_that_come_are_signed_for(package: Path) -> None:
    make(job("train", lr=1))
    before = Ledger().fingerprint(job("train", lr=1))
    edit(package, "third", "return 2", "return 1 + 1")
    now = job("train", lr=1, new_default=3)
    accept([now], "a default was written out")
    assert state(now) is State.FRESH
    (trace,) = json.loads(now.receipt.read_text())["accepted"]
    assert trace["reason"] == "a default was written out" and trace["fingerprint"] == before
    assert not equivalence.FILE.exists()
    assert trace["changes"] == ["new_default: absent -> 3", "code of rtm.third:all changed"]


def test_all_is_accepted_or_nothing(package: Path) -> None:
    train, evaluate = job("train", lr=1), job("evaluate", k=1)
    make(train)
    make(evaluate)
    edit(package, "third", "return 2", "return 1 + 1")
    train.outputs[0].write_text("TEXT")
    with pytest.raises(UserError, match="train/x cannot be accepted"):
        accept([evaluate, job("train", lr=1, new=2)], "no")
    assert state(evaluate) is State.STALE and not equivalence.FILE.exists()


def test_code_that_is_lost_is_named(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = job("train")
    make(made)
    (code,) = Path("lineage/code").iterdir()
    assert json.loads(made.receipt.read_text())["parts"]["code"] == code.stem
    code.write_text(code.read_text().replace("rtm.third:all", "rtm.other:all"))  # a name is for people
    edit(package, "third", "return 2", "return 1 + 1")
    code.write_text(code.read_text().replace('"own": "', '"own": "0'))
    with pytest.raises(UserError, match=r"lineage/code/\w+\.json: its name does not follow from its content"):
        check_alone(made)
    why([made])
    assert f"code changed, and {code} is missing or damaged" in capsys.readouterr().out
    with pytest.raises(UserError, match="is missing or damaged"):
        accept([made], "no")


def check_alone(made: Job) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rtm.cli.lineage.every_job", lambda: {made.id: made})
        check()


def test_a_line_that_is_none_is_named(package: Path) -> None:
    make(job("train"))
    equivalence.FILE.write_text("{}\n")
    with pytest.raises(UserError, match=r"Line 1 of lineage/equivalences\.jsonl is not a valid acceptance"):
        check_alone(job("train"))


@pytest.mark.parametrize(("old", "new"), [(None, 2), (2, None), (None, {"width": 8}), ("absent", 2)])
def test_a_change_from_or_to_null_is_no_refactoring(old: Any, new: Any) -> None:
    made = job("train", mapper={"tokens": old})
    make(made)
    changed = job("train", mapper={"tokens": new})
    assert Ledger().why(changed) == [f"mapper.tokens: {json.dumps(old)} -> {json.dumps(new)}"]
    with pytest.raises(UserError, match=r"mapper\.tokens has another value"):
        accept([changed], "no")
    assert state(made) is State.FRESH


# code by content


def meant(package: Path, name: str, edit: Callable[[str], str]) -> bool:
    """Whether an edit of a module changes what it means to the entry."""
    before = present().root((ENTRY,))
    path = package / f"{name}.py"
    path.write_text(edit(path.read_text()))
    forget()
    return present().root((ENTRY,)) != before


def replace(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("name", "edit", "counts"),
    [
        ("second", replace("LIMIT = 3", "# a comment\nLIMIT  =  (3)"), False),
        ("second", replace("def used():", 'def used() -> "int":\n    """A docstring."""'), False),
        ("second", replace("return 1", "return 5"), False),  # nothing reaches it
        ("second", lambda text: text + "\n\ndef another():\n    return used()\n", False),
        ("second", replace("LIMIT = 3", "LIMIT = 4"), True),
        ("second", replace("return LIMIT", "return -LIMIT"), True),
        ("third", replace("return 2", "return 2.0"), True),
        ("third", lambda text: text + "\n\nall.cache = {}\n", True),  # runs on import
        ("first", replace("from rtm import third", "from rtm import errors, third"), False),
        ("first", replace("def main():", "def main():\n    from rtm.second import unused\n    unused()"), True),
        ("errors", replace("return 1", "return 2"), False),
    ],
)
def test_what_changes_the_code(package: Path, name: str, edit: Callable[[str], str], counts: bool) -> None:
    assert meant(package, name, edit) is counts


def test_a_decorator_of_ours_makes_a_definition_count(package: Path) -> None:
    registry = (
        "KNOWN = {}\n\n\ndef register(f):\n    KNOWN[f.__name__] = f\n\n\n@register\ndef plugin():\n    return 1\n"
    )
    (package / "second.py").write_text(registry + CODE["second"])
    forget()
    assert meant(package, "second", replace("def plugin():\n    return 1", "def plugin():\n    return 2"))


def test_folders_count_by_their_bytes(package: Path) -> None:
    (package / "templates").mkdir()
    (package / "templates/a.tex").write_text("a")
    forget()
    before = present().root(("rtm/templates",))
    assert present().reached(("rtm/templates",)) == ["rtm/templates/a.tex"]
    (package / "templates/a.tex").write_text("b")
    forget()
    assert present().root(("rtm/templates",)) != before
