"""`rtm try --export NAME`: write the entries of a trial at the end of the files of params/."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from rtm.config.loading import PARAMS, load, trials
from rtm.config.reading import Raw, read_sections
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.trial.recipe import Dumper, folder_of

NOT_EXPORTED = ("scales",)


def export(name: str, params: Path = PARAMS) -> str:
    """Check that every scale loads with the entries, write them, and put the images where `rtm fetch` finds them."""
    folder = params.parent / folder_of(name)
    if str(folder_of(name)) not in trials(params):
        known = (
            ", ".join(each.partition("/")[2] for each in trials(params)) or "none yet; begin one with `rtm try FOLDER`"
        )
        raise UserError(f"There is no trial {name!r}; there is {known}.")
    entries, _ = read_sections([folder / "params.yaml"])
    texts = _changed(entries, params)
    _check(texts, params)
    images = params.parent / "downloads" / name
    if not images.exists():
        shutil.copytree(folder / "downloads" / name, images)
    for path, text in texts.items():
        write_text(path, text)
    tables = ", ".join([*entries.get("tables", {}), *entries.get("figures", {})])
    return (
        f"{name} is in {', '.join(sorted(path.name for path in texts))} of {params}/; `rtm fetch {name}` and "
        f"`rtm train {name}_rtm` take over what the trial made. To have {tables} made, add them to a scale in "
        f"{params}/scales.yaml."
    )


def _changed(entries: Raw, params: Path) -> dict[Path, str]:
    """The new text of each file."""
    present, files = read_sections(sorted(params.glob("*.yaml")))
    texts: dict[Path, str] = {}
    for section, added in entries.items():
        if section in NOT_EXPORTED or not added:
            continue
        if twice := sorted(present[section].keys() & added.keys()):
            raise UserError(
                f"{files[section]}: {', '.join(twice)} is there already; take it out, or name the trial anew."
            )
        path = files[section]
        text = texts.get(path, path.read_text("utf-8"))
        if list(_sections_of(text))[-1] != section:
            raise UserError(f"{path}: {section} is not its last section; move it to the end, and export again.")
        block: str = yaml.dump(added, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True)
        indented = "".join(f"  {line}" for line in block.splitlines(keepends=True))
        texts[path] = f"{text.rstrip()}\n{indented}"
    return texts


def _sections_of(text: str) -> dict[str, yaml.Node]:
    root = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return {key.value: value for key, value in root.value}


def _check(texts: Mapping[Path, str], params: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(params, Path(folder) / "params"))
        for path, text in texts.items():
            (copy / path.name).write_text(text, "utf-8")
        for scale in load("paper", copy).params.scales:
            load(scale, copy)
