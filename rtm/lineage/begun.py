"""Begun trainings: where the state of a training is, and with which code it was begun.

The folder of a run is named by its values and inputs, so a training goes on where it was. Its code is in begun.json: a
training that was begun with other code goes on only if the code was accepted as the same.
"""

import shutil
from pathlib import Path
from typing import Literal

from rtm.core.errors import UserError
from rtm.core.files import json_digest, write_json
from rtm.core.readers import read_json
from rtm.lineage.environment import revision
from rtm.lineage.freshness import Freshness
from rtm.lineage.history import changed_code
from rtm.lineage.receipts import JSON
from rtm.stages.base import Job, Recording
from rtm.training.folder import has_save, history_of, is_running, step_of

FILE = "begun.json"


def run_folder(job: Job, parts: JSON) -> Path:
    """The folder of a training with these parts."""
    name = json_digest([parts["params"], parts["inputs"]])[:16]
    return Path(job.root) / "runs" / job.names["experiment"] / name


def begin(job: Job, recording: Recording) -> Path:
    """The folder in which a training begins or goes on. A finished run of other code is removed."""
    folder = run_folder(job, recording.parts)
    if other_code(Freshness(), job, folder) and not is_running(folder):
        if is_unfinished(folder):
            raise UserError(
                f"{folder} holds this training at step {step_of(folder)}, begun with other code: "
                f"{changed_code(job, {'made': _begun(folder)})}. If it gives the same results, "
                f"`rtm lineage accept {job.id} --reason '...'` lets it go on; otherwise delete the folder."
            )
        shutil.rmtree(folder)
    if not (folder / FILE).exists():
        write_json(folder / FILE, {"code": recording.parts["code"], "revision": revision()})
    return folder


def other_code(freshness: Freshness, job: Job, folder: Path) -> str | None:
    """The hash of the code with which a run was begun, if it is not the present one and was not accepted."""
    code = str(_begun(folder)["code"]) if (folder / FILE).exists() else None
    return None if code is None or freshness.is_same_code(job, code) else code


def is_unfinished(folder: Path) -> bool:
    history = history_of(folder)
    return has_save(folder) and history is not None and not history.is_finished


def _begun(folder: Path) -> JSON:
    begun: JSON = read_json(folder / FILE, dict[Literal["code", "revision"], str | None], f"delete {folder / FILE}")
    return begun
