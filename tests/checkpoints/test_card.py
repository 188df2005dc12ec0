"""Model cards: the fields that the Hub reads, the words for each kind of training, and texts that would break the
page."""

from typing import Any

import pytest
import yaml
from support import smoke_workspace
from support.checkpoints import GAN, IMLE, MLP, metadata_of

from rtm.checkpoints.card import model_card

ADDRESS = "hf://owner/name/w.safetensors"


def metadata(name: str, **dataset: object) -> dict[str, Any]:
    found = metadata_of(smoke_workspace.experiment(name), 0, "fingerprint", "sha of the data")
    return {**found, "dataset": {**found["dataset"], **dataset}}


@pytest.mark.parametrize(
    ("name", "tag", "introduction"),
    [
        (IMLE, "rs-imle", "images of Shells, with the Recursive Token Mapper, trained by RS-IMLE."),
        (MLP, "rs-imle", "images of Shells, with the mapping network `mlp`, trained by RS-IMLE."),
        (GAN, "stylegan2", "images of CIFAR-10, with the Recursive Token Mapper, trained by StyleGAN2."),
    ],
)
def test_a_card_says_what_was_trained_to_people_and_to_the_hub(name: str, tag: str, introduction: str) -> None:
    card = model_card(metadata(name), ADDRESS, "sha of the file")
    _, front, rest = card.split("---\n", 2)
    assert yaml.safe_load(front)["tags"] == ["image-generation", tag]
    assert introduction in rest
    assert f'rtm.load("{ADDRESS}")' in rest
    assert ("label=" in rest) == (name == GAN)  # only a model with classes has this option


def test_a_method_from_outside_has_no_tag_of_another() -> None:
    info = metadata(IMLE)
    card = model_card({**info, "recipe": {**info["recipe"], "imle": None}}, ADDRESS, "sha of the file")
    assert yaml.safe_load(card.split("---\n", 2)[1])["tags"] == ["image-generation"]
    assert "trained by a method from outside of rtm." in card


def test_texts_of_others_stay_in_their_cell() -> None:
    card = model_card(metadata(IMLE, licence="a | b\n# c", citation="<script>alert(1)</script>"), ADDRESS, "sha")
    (licence,) = (line for line in card.splitlines() if line.startswith("| licence of the dataset"))
    assert licence.startswith(r"| licence of the dataset | a \| b")
    assert licence.endswith("# c |")
    assert "<script>" not in card
    assert "&lt;script>" in card
    assert "# c" not in card.splitlines()


def test_what_is_not_recorded_is_said_and_not_invented() -> None:
    card = model_card(metadata(IMLE), ADDRESS, "sha", made={"time": "2026-11-17", "gpu_hours": 0})
    assert "| code revision | not recorded |" in card
    assert "| trained | 2026-11-17 |" in card
    assert "No metrics were recorded for this file." in card


def test_metrics_have_their_intervals_and_no_row_for_errors_of_others() -> None:
    numbers = {"fid": 12.5, "is": 3.0, "is_std": 0.1, "precision": 0.5}
    protocol = {"protocol": "paper", "samples": 5000, "metrics": {"native": numbers, "H8": {"fid": 1.0}}}
    card = model_card(
        metadata(IMLE),
        ADDRESS,
        "sha",
        measured=[{**protocol, "intervals": {"native": {"is": [2, 4]}}}],
    )
    table = card[card.index("## Metrics") : card.index("## Use")].splitlines()
    assert "Protocol `paper`, 5,000 samples:" in table
    assert table[-4:-1] == ["| FID | 12.5 |  |", "| Inception Score | 3 | 2 to 4 |", "| precision | 0.5 |  |"]
