"""A receipt: what a result was made from, and the md5 of its files. Git or DVC keeps it beside the result."""

from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from rtm.core.files import json_digest
from rtm.core.readers import matches, read_json
from rtm.stages.base import Job

JSON = dict[str, Any]
MORE = ConfigDict(extra="allow")
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MD5 = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class Parts(TypedDict):
    """All that a result depends on."""

    params: JSON  # the values of params/
    code: str  # a hash (rtm.lineage.code)
    inputs: dict[str, str | None]  # the files of the jobs before it, as a hash by the job's id


class Output(TypedDict):
    md5: MD5
    size: Count


class Made(TypedDict, total=False):
    """Where, when and with what a result was made."""

    __pydantic_config__ = MORE  # type: ignore[misc]
    host: str
    time: str
    seconds: Amount
    gpu_hours: Amount | None
    revision: str | None
    environment: dict[str, str]
    slurm_job: str
    slurm_jobs: list[str]


class Receipt(TypedDict):
    __pydantic_config__ = MORE  # type: ignore[misc]
    fingerprint: str  # a hash of the stage and the parts
    parts: Parts
    outputs: dict[str, Output]
    made: Made
    identity: NotRequired[str]  # the hash of the first files, if nobody keeps them and they were made again


def read_receipt(path: Path) -> JSON:
    kept = f"bring it back with `git checkout -- {path}` or `dvc checkout {path}`"
    return dict(read_json(path, Receipt, f"{kept}, or delete it: its results are then made again"))


def is_receipt(value: Any) -> bool:
    return matches(value, Receipt)


def fingerprint_of(stage: str, parts: JSON) -> str:
    return json_digest([stage, parts])


def hours_of(receipt: JSON) -> float:
    """The cost of a result: GPU-hours, or hours if no GPU was used."""
    made = receipt["made"]
    return float(made.get("gpu_hours") or made.get("seconds", 0.0) / 3600)


def contradictions(job: Job, receipt: JSON) -> list[str]:
    """What is wrong in a receipt itself, for example after an edit by hand or a bad merge."""
    outputs = set(map(str, job.outputs.values()))
    if receipt["fingerprint"] != fingerprint_of(job.stage.name, receipt["parts"]):
        return [f"{job.receipt} was edited: its fingerprint does not follow from its parts"]
    if other := sorted(receipt["outputs"].keys() ^ outputs):
        return [f"{job.receipt} names other outputs: {', '.join(other)}"]
    return []
