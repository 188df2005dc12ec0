"""The format of a receipt, how it is read, and the definitions that are kept beside it."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from rtm.core.files import UNREADABLE, json_digest, matches, read_json
from rtm.core.layout import Layout
from rtm.lineage.definitions import Graph
from rtm.lineage.job import Job

JSON = dict[str, Any]
MORE = ConfigDict(extra="allow")
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Parts(TypedDict):
    params: JSON
    code: str
    inputs: dict[str, str | None]


class Output(TypedDict):
    md5: str
    size: Count


class Made(TypedDict, total=False):
    __pydantic_config__ = MORE  # type: ignore[misc]
    host: str
    time: str
    seconds: Positive
    gpu_hours: Positive | None
    revision: str | None
    environment: dict[str, str]
    slurm_job: str
    slurm_jobs: list[str]


class Signed(TypedDict):
    __pydantic_config__ = MORE  # type: ignore[misc]
    fingerprint: str
    parts: Parts


class Receipt(Signed):
    outputs: dict[str, Output]
    made: Made
    identity: NotRequired[str]


def read_receipt(receipt: Path) -> JSON:
    kept = f"bring it back with `git checkout -- {receipt}` or `dvc checkout {receipt}`"
    return dict(read_json(receipt, Receipt, f"{kept}, or delete it: its results are then made again"))


def whole_receipt(value: Any) -> bool:
    return matches(value, Receipt)


def whole_parts(value: Any) -> bool:
    return matches(value, Signed)


def code_file(job: Job, root: str) -> Path:
    return Layout(Path(job.root), Path(job.root)).code(root)


def recorded_graph(path: Path) -> Graph | None:
    """The definitions behind a hash, if the file has them and its name is their hash."""
    with suppress(*UNREADABLE):
        graph = Graph.of(path.read_text())
        return graph if graph.root == path.stem and graph.follows() else None
    return None


def fingerprint_of(job: Job, parts: JSON) -> str:
    return json_digest([job.stage, parts])
