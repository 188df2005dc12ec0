"""The error for a misspelt target lists the nearest names, or says what a word means."""

import pytest
from support import PARAMS

from rtm.core.errors import UserError
from rtm.pipeline.targets import check_targets
from rtm.stages.base import Job
from rtm.stages.graph import every_job


@pytest.fixture(scope="module")
def graph() -> dict[str, Job]:
    return every_job(PARAMS)


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "-n", "--report", "reports/page.html", "demo/reports/tab_digits.tex"],
        ["-R", "train", "--", "all"],
        ["--config", "redo=train/x", "demo"],
        ["checkpoints/cifar10_imle_rtm/seed0.safetensors"],
    ],
)
def test_targets_and_options_are_let_through(graph: dict[str, Job], words: list[str]) -> None:
    check_targets(graph, words)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("demo/reports/tab_digit.tex", r"Nothing makes .*choose one of demo/reports/tab_digits\.tex"),
        ("checkpoints/cifar10_imle_rtn/seed0.safetensors", "checkpoints/cifar10_imle_rtm/seed0"),
        ("paper", "`snakemake all` makes everything"),
        ("train", r"it is a stage; name a file that it makes, for example \S*checkpoints/"),
        ("tab_cifar10", r"you may mean reports/tab_cifar10\.tex"),
        ("cifar10_imle_rtm", r"you may mean results/cifar10_imle_rtm/metrics\.json"),
        ("vgg16", r"you may mean weights/vgg16\.safetensors"),
    ],
)
def test_other_words_are_answered(graph: dict[str, Job], word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_targets(graph, [word])
