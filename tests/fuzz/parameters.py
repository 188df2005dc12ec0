"""Bad params/: damaged text, odd values in every place, and dangerous features of YAML."""

import shutil
from functools import cache
from pathlib import Path
from random import Random

import yaml
from fuzz import fuzzer
from fuzz.damage import damaged
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError

SCALES = ("paper", "demo", "desk", "smoke")
ODD = (
    *("-1", "0", "1.0", "-1.0e+30", "1.0e+300", ".inf", ".nan", "1e400", "null", "true", "yes", "''", "[]", "{}"),
    *(
        "2024-99-99",
        "2024-01-01",
        "0x_",
        "0b2",
        "1_000",
        "99999999999999999999",
        "9" * 5000,
        "!!binary aGk=",
        "!!set {}",
    ),
    *(
        "!!python/object:os.system id",
        "&x [*x]",
        "*nowhere",
        "{2024-01-01: 1}",
        "{[1]: 2}",
        "{on: 1}",
        "? [a]",
        "<<: 3",
    ),
    *(
        '"\\0"',
        '"\\ud800"',
        '"\\e[2J"',
        "../../x",
        "/etc",
        "'; touch x; '",
        "$(touch x)",
        "a" * 20_000,
        "[1, 1]",
        "[1.0]",
    ),
    *("{kind: rtm}", "{kind: mlp, layers: 1.5}", "[[[[[[[[[[]]]]]]]]]]", "'%s'", "{{7*7}}", "\t", "- a\n- b"),
)
KNOWN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_/.-ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@cache
def texts() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(PARAMS.glob("*.yaml"))}


def check_loaded(folder: Path, rng: Random, changes: dict[str, bytes]) -> None:
    """Parameters that load can be used: names are safe in a shell, decays move, numbers are in their bounds."""
    shutil.copytree(PARAMS, folder / "params")
    for name, content in changes.items():
        (folder / "params" / name).write_bytes(content)
    try:
        config = load(rng.choice(SCALES), folder / "params")
    except UserError as error:  # it has one line for each problem
        raise UserError(" ".join(str(error).splitlines())) from None
    assert set(config.scale.root + config.scale.shared) <= KNOWN and ".." not in config.scale.root
    for each in config.experiments.values():
        training = each.recipe.training
        assert 0 <= training.ema < 1 and all(0 <= beta < 1 for beta in training.betas) and 0 < training.lr <= 10
        assert each.steps() > 0
    for entry in config.params.published.values():
        assert all(0 <= value <= 1e12 for value in entry.values.values())


@fuzzer
def parameter_text(rng: Random, folder: Path) -> None:
    """Damaged bytes in a file of params/."""
    name = rng.choice(list(texts()))
    check_loaded(folder, rng, {name: damaged(rng, texts()[name].encode())})


@fuzzer
def parameter_value(rng: Random, folder: Path) -> None:
    """An odd value in the place of a value."""
    name = rng.choice(list(texts()))
    lines = texts()[name].splitlines()
    places = [number for number, line in enumerate(lines) if ": " in line and not line.lstrip().startswith("#")]
    number = rng.choice(places)
    key, _, _ = lines[number].partition(": ")
    lines[number] = f"{key}: {rng.choice(ODD)}"
    check_loaded(folder, rng, {name: "\n".join(lines).encode()})


@fuzzer
def parameter_tree(rng: Random, folder: Path) -> None:
    """A value anywhere in the tree is replaced, removed, or moved to another place."""
    name = rng.choice(list(texts()))
    content = yaml.safe_load(texts()[name])
    places = list(_places(content))
    holder, key = rng.choice(places)
    action = rng.randrange(3)
    if action == 0:
        holder[key] = rng.choice((-1, 0, 1, 2.5, -1e30, 10**12, "x", "", None, True, [], {}, [1, 1], {"a": {}}))
    elif action == 1:
        del holder[key]
    else:
        other, place = rng.choice(places)
        holder[key] = other[place]
    check_loaded(folder, rng, {name: yaml.safe_dump(content).encode()})


@fuzzer
def alias_bomb(rng: Random, folder: Path) -> None:
    """Few bytes that expand to very many values, by lists, mappings or merges."""
    levels, width = rng.randint(3, 60), rng.randint(2, 12)
    kind = rng.randrange(4)
    lines = ["a0: &a0 {x: 1, y: [1, 2]}"]
    for level in range(1, levels):
        before = ", ".join([f"*a{level - 1}"] * width)
        lines.append(
            (
                f"a{level}: &a{level} [{before}]",
                f"a{level}: &a{level} {{b: [{before}], c: *a{level - 1}}}",
                f"a{level}: &a{level} {{<<: [{before}]}}",
                f"a{level}: &a{level} [*a{level}]",
            )[kind]
        )
    deep = "[" * rng.choice((10, 900, 5_000, 200_000))
    check_loaded(folder, rng, {"zzz.yaml": rng.choice(("\n".join(lines), f"a: {deep}")).encode()})


def _places(value: object) -> list[tuple[dict[str, object], str]]:
    found: list[tuple[dict[str, object], str]] = []
    if isinstance(value, dict):
        found += [(value, key) for key in value]
        found += [place for each in value.values() for place in _places(each)]
    elif isinstance(value, list):
        found += [place for each in value for place in _places(each)]
    return found
