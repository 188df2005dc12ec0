"""The digit classifier's weights come from its file; without it the command is named."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from rtm.core.errors import UserError
from rtm.models.digits import load_digits_classifier


def test_without_it_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch digit_classifier"):
        load_digits_classifier(tmp_path / "absent")
    for content in (b"cut short", save({"other": torch.zeros(2)})):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(UserError, match=r"damaged is damaged .* `rtm fetch digit_classifier`"):
            load_digits_classifier(tmp_path / "damaged")
