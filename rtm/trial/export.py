"""`rtm try --export NAME`: write the entries of a trial into the files of params/."""

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rtm.config.loading import PARAMS, load, trials
from rtm.config.reading import parsed, read_sections
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.trial.recipe import folder_of

NOT_EXPORTED = "scales"
BLOCK = re.compile(r"^(\w+):.*\n((?:[ #].*\n|\n)*)", re.MULTILINE)  # a section: its name, and its entries


def export(name: str, params: Path = PARAMS) -> str:
    """Check that every scale loads with the entries, write them, and put the images where `rtm fetch` finds them."""
    folder = params.parent / folder_of(name)
    known = trials(params)
    if str(folder_of(name)) not in known:
        names = [trial.partition("/")[2] for trial in known]
        options = ", ".join(names) or "none yet; begin one with `rtm try FOLDER`"
        raise UserError(f"There is no trial {name!r}; there is {options}.")
    texts = _with_trial(folder / "params.yaml", params)
    _check(texts, params)
    images = params.parent / "downloads" / name
    if not images.exists():
        shutil.copytree(folder / "downloads" / name, images)
    for path, text in texts.items():
        write_text(path, text)
    entries, _ = read_sections([folder / "params.yaml"])
    shown = ", ".join([*entries.get("tables", {}), *entries.get("figures", {})])
    files = ", ".join(sorted(path.name for path in texts))
    return (
        f"{name} is in {files} of {params}/; `rtm fetch {name}` and `rtm train {name}_rtm` take over what the trial "
        f"made. To have {shown} made, add them to a scale in {params}/scales.yaml."
    )


def _with_trial(trial: Path, params: Path) -> dict[Path, str]:
    """The new text of each file that gets entries of the trial, at its end."""
    entries, _ = read_sections([trial])
    present, files = read_sections(sorted(params.glob("*.yaml")))
    blocks = dict(BLOCK.findall(trial.read_text("utf-8") + "\n"))
    texts: dict[Path, str] = {}
    for section, values in entries.items():
        if section == NOT_EXPORTED:
            continue
        block = blocks.get(section, "")
        path = files[section]
        if parsed(block) != values:
            raise UserError(f"{trial}: write {section} with one entry below the other, as it was.")
        if twice := sorted(present[section].keys() & values.keys()):
            raise UserError(f"{path}: {', '.join(twice)} is there already; take it out, or name the trial anew.")
        texts[path] = f"{path.read_text('utf-8').rstrip()}\n{block.rstrip()}\n"
    return texts


def _check(texts: Mapping[Path, str], params: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(params, Path(folder) / "params"))
        for path, text in texts.items():
            (copy / path.name).write_text(text, "utf-8")
        for scale in load("paper", copy).params.scales:
            load(scale, copy)
