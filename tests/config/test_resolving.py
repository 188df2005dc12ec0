"""Values of params/ that do not fit together are refused; the message names the place and the choice."""

from collections.abc import Callable

import pytest

Refusal = Callable[[str, str, str], str]
MISTAKES = [  # file, text, replacement, parts of the message
    ("mappers.yaml", "H: 8, L: 2}", "H: 8, L: 2, tokens: 3}", ["rtm.mapper", "3 tokens x width 128", "1024"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: 8, L: 2, width: 100}", ["dim 1024", "width 100"]),
    ("datasets.yaml", "      of: cifar10", "      of: cifar11", ["cifar10_horse100.of", "there is no 'cifar11'"]),
    ("datasets.yaml", "label: 7\n", "label: 10\n", ["cifar10_horse100", "a label below its classes"]),
    ("recipes.yaml", "decoder: cifar10", "decoder: fewshot", ["ends at 256 px", "32 px"]),
    ("datasets.yaml", "resolution: 512", "resolution: 500", ["afhq_stylegan2_ada", "a power of two", "500 px"]),
    (
        "experiments.yaml",
        "mapper: mlp8}",
        "mapper: mlp9}",
        ["experiments.yaml: experiments.cifar10_imle_mlp.mapper", "'mlp9'", "choose one of mlp8"],
    ),
    ("experiments.yaml", "mapper: mlp8}", "mapper: mlp8, sweep: [3]}", ["only a recursive mapper"]),
    ("scales.yaml", "tables: [tab_cifar10", "tables: [tab_cifar11", ["'tab_cifar11'", "tab_cifar10"]),
    (
        "recipes.yaml",
        "imle: {pool: 10.0,",
        "imle: {fixed_point: 1.0, pool: 10.0,",
        ["fixed_point needs a recursive"],
    ),
    ("recipes.yaml", "samples: 50000", "samples: 100", ["samples is 100, protocol paper asks for 50000"]),
    ("recipes.yaml", "samples: 300}", "samples: 50000}", ["demo.digits_", "50000 samples", "of 300 images"]),
    ("recipes.yaml", "[studiogan]", "[studiogan, papr]", ["protocol", "'papr'", "choose one of paper"]),
    (
        "recipes.yaml",
        "conditional: true",
        "conditional: true\n      select_protocol: x",
        ["select_protocol", "'x'", "paper"],
    ),
    ("protocols.yaml", "k: 3", "k: 500000", ["protocol paper has k = 500000", "lower its k"]),
    ("protocols.yaml", "splits: 10", "splits: 500000", ["protocol paper has 500000 splits"]),
    ("protocols.yaml", "digits300: digits_rest", "digits300: digits_left", ["'digits_left'", "not a dataset"]),
]


@pytest.mark.parametrize(("file", "text", "replacement", "message"), MISTAKES)
def test_a_mistake_is_named(
    refusal: Refusal,
    file: str,
    text: str,
    replacement: str,
    message: list[str],
) -> None:
    found = refusal(file, text, replacement)
    assert [part for part in message if part not in found] == []
