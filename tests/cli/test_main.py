"""A user's mistake gives one sentence and exit code 1; imports stay in their layers."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import ROOT
from support.command import rtm
from support.workspace import copied, environment

from rtm.cli import showing
from rtm.core.files import write_text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "train cifar10_rtm",
            "There is no experiment at scale paper named 'cifar10_rtm'. Did you mean cifar10_imle_rtm",
        ),
        ("train digits_rtm", "digits_rtm is not at scale paper; add `--scale demo`."),
        ("train digits_rtm --scale demo mapper.H=0", "mappers.digits_rtm.H: Input should be greater than 0 (got 0)"),
        ("train digits_rtm --scale demo lr", "'lr' is no change; write key=value, for example mapper.H=4."),
        (
            "make variants/demo/gallery/digits_rtm+mapper.H=3/seed0",
            "Begin with `rtm make variants/demo/train/digits_rtm+mapper.H=3/seed0`",
        ),
        ("train cifar10_imle_mlp --scale smoke", "`snakemake --cores all -- smoke/data/cifar10/images.npy`"),
        ("try --export cats", "There is no trial 'cats'"),
        ("train cifar10_imle_rtm --seed 5", "has no seed 5; choose one of 0"),
        ("train cifar10_imle_rtm --scale tiny", "choose one of paper, demo, desk, smoke"),
        ("fetch imagenet", "There is no dataset or network named 'imagenet'"),
        ("make reference/digits/best", "There is no job reference/digits/best; choose one of"),
        ("evaluate digits_rtm --scale demo --protocol paper", "choose one of digits"),
        ("evaluate x.npy cifar10", "x.npy is neither a file or folder here nor a name of params/"),
        ("evaluate digits cifar10:valid --protocol numbers", "There is no protocol named 'numbers'"),
        ("evaluate cifar10:valid", "cifar10 has the parts train and test, not 'valid'"),
        ("evaluate digits --json results/cifar10_imle_rtm/paper/seed0.json", "which only its own stages write"),
        ("table tab_cifar", "There is no table at scale paper named 'tab_cifar'; choose one of tab_cifar10"),
        ("figure fig_x", "There is no figure"),
        ("lineage why reports/tab_cifar.tex", "Nothing makes reports/tab_cifar.tex; choose one of"),
        ("lineage accept train/cifar10_imle_rtm", "Say why the results stay the same"),
        ("lineage why train/digits_rtm", "Nothing makes train/digits_rtm; choose one of demo/train/digits_rtm"),
        ("evaluate x.npy digits --protocol digits --held-out y.npy", "add --memorisation, or leave it out"),
        ("fetch digits --source /nope", "digits is made by code at scale paper; leave --source out"),
        ("make demo/gallery/digits_rtm/seed1", "choose one of demo/gallery/digits_rtm/seed0"),
        ("demo --cores 0", "--cores is 0; give at least 1"),
    ],
)
def test_a_mistake_is_one_sentence(words: str, message: str) -> None:
    answer = rtm(*words.split())
    assert answer.returncode == 1
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stderr.startswith("rtm: ")
    assert len(answer.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("words", ["lineage check", "demo", "make report/index"])
def test_a_scale_is_refused_where_it_would_change_nothing(words: str) -> None:
    answer = rtm(*words.split(), "--scale", "demo")
    assert answer.returncode == 2
    assert "unrecognized arguments: --scale" in answer.stderr


def test_a_subfolder_is_as_good_as_the_root() -> None:
    for words in ("status --scale demo", "lineage why ../reports/tab_cifar10.tex"):
        answer = rtm(*words.split(), cwd=ROOT / "docs")
        assert answer.returncode == 0
        assert answer.stdout == rtm(*words.replace("../", "").split()).stdout


def test_an_unknown_benchmark_is_named() -> None:
    words = [sys.executable, "-m", "benchmarks", "foo"]
    answer = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.startswith("There is no benchmark foo; choose from extraction, ")


def test_a_disk_that_is_full_for_torch_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """If torch's writer stops in the middle, the error is not an OSError."""

    def status(_: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 12544000 vs 12543888")

    monkeypatch.setattr(showing, "statuses", status)
    answer = rtm("status")
    assert answer.stderr.startswith("rtm: torch could not write a whole file; free some space in ")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_folder_that_is_full_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int) -> None:
    """The error of a full disk has no file name, if it comes when the file is written."""

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(showing, "statuses", lambda _: write_text(tmp_path / "other/x.json", "x"))
    answer = rtm("status")
    assert answer.stderr.startswith(f"rtm: {tmp_path}/other: {os.strerror(number)}; free some space there")
    assert not list((tmp_path / "other").iterdir())


def test_if_nobody_knows_which_folder_is_full_it_is_the_one_with_the_least_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(showing, "statuses", full)
    free = {"runs": 0}
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free.get(Path(path).name, 10**9)))
    (tmp_path / "params").symlink_to(ROOT / "params")
    answer = rtm("status", cwd=tmp_path)
    assert answer.stderr.startswith(f"rtm: {tmp_path}/runs: No space left on device; free some space there")


def test_the_files_of_pdflatex_are_ignored_by_git() -> None:
    for suffix in ("aux", "log", "tex", "pdf"):
        subprocess.run(["git", "check-ignore", "-q", f"reports/report.{suffix}"], cwd=ROOT, check=True)


def test_outside_the_repository_the_folder_is_named(tmp_path: Path) -> None:
    answer = rtm("doctor", cwd=tmp_path)
    assert answer.returncode == 1
    assert "run from the root of the repository" in answer.stderr


LAYERS = [  # module, modules that it must not import
    ("rtm", ["torch"]),
    ("rtm.cli.main", ["torch", "snakemake", "dvc", "numpy", "PIL", "pandas"]),
    ("rtm.reports.tables", ["torch", "snakemake", "dvc"]),
    ("rtm.reports.figures", ["torch"]),
    ("rtm.reports.summary", ["torch"]),
    ("rtm.lineage.receipts", ["torch", "snakemake"]),
    ("rtm.pipeline.status", ["torch", "snakemake"]),
    ("rtm.page.html", ["torch", "snakemake", "dvc"]),
    ("rtm.metrics.evaluate", ["rtm.training.loop", "rtm.methods.imle.method", "rtm.methods.stylegan2.method"]),
    ("rtm.training.loop", ["rtm.metrics", "rtm.reports", "rtm.methods.imle.method"]),
    ("rtm.methods.imle.method", ["rtm.metrics", "rtm.methods.stylegan2.method", "rtm.lineage.receipts"]),
    (
        "rtm.methods.stylegan2.method",
        ["rtm.metrics", "rtm.methods.imle.method", "rtm.models.decoders", "rtm.lineage.receipts"],
    ),
]


IMPORTING = """
import os, sys
from importlib import import_module
from pathlib import Path

folder, *words = sys.argv[1:]
for module, shared in (word.split(":") for word in words):
    if shared:
        import_module(module)
    elif os.fork():
        assert os.wait()[1] == 0, module
    else:
        import_module(module)
        Path(folder, module).write_text(" ".join(sys.modules), "utf-8")
        os._exit(0)
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules that each module loads, measured in a separate process. To save time, a process may start with slow
    libraries that are already imported, if its module may import them. They count as the module's imports."""
    folder = tmp_path_factory.mktemp("imported")
    light = [module for module, forbidden in LAYERS if "pandas" in forbidden or module == "rtm"]
    without = [module for module, forbidden in LAYERS if "torch" in forbidden and module not in light]
    others = [module for module, forbidden in LAYERS if "torch" not in forbidden]
    order = [*light, "pandas:", "matplotlib.figure:", "rtm.config:", *without, "torch:", "scipy.stats:", *others]
    words = [f"{name}shared" if name.endswith(":") else f"{name}:" for name in order]
    subprocess.run([sys.executable, "-c", IMPORTING, folder, *words], check=True)
    return {module: set((folder / module).read_text("utf-8").split()) for module, _ in LAYERS}


@pytest.mark.parametrize(("module", "forbidden"), LAYERS)
@pytest.mark.slow(seconds=12)
def test_imports_keep_to_their_layer(module: str, forbidden: list[str], imported: dict[str, set[str]]) -> None:
    assert module in imported[module]
    assert not imported[module] & set(forbidden)


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize(
    ("mistake", "target", "message"),
    [
        (
            "",
            "reports/tab_cifra10.tex",
            "rtm: Nothing makes reports/tab_cifra10.tex; choose one of reports/tab_cifar10",
        ),
        ("widht: 3", "demo", "rtm: params/wrong.yaml: widht: unknown key 'widht'"),
    ],
)
def test_snakemake_prints_a_mistake_as_one_sentence(tmp_path: Path, mistake: str, target: str, message: str) -> None:
    (copied(tmp_path) / "params/wrong.yaml").write_text(mistake, "utf-8")
    command = ["snakemake", "--cores", "1", "-n", target]
    answer = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert message in answer.stderr
    assert "File " not in answer.stderr


@pytest.mark.slow(seconds=4)
def test_missing_gpus_are_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    target = "checkpoints/cifar10_imle_rtm/seed0.safetensors"
    command = ["snakemake", "--cores", "1", target]
    answer = subprocess.run(
        command,
        cwd=copied(tmp_path),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert "needs 4 h100 GPUs for about 140 hours and this machine has 0" in answer.stderr
    assert f"submit it with `snakemake --profile slurm {target}`" in answer.stderr
    assert not (tmp_path / "data").exists()
