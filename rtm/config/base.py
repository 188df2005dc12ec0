"""The base of every model of `params/`: it refuses unknown keys, wrong types and impossible values."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rtm.config.architecture import DEEPEST

T = TypeVar("T")


def _each_once(values: tuple[T, ...]) -> tuple[T, ...]:
    twice = dict.fromkeys([str(value) for value in values if values.count(value) > 1])
    if twice:
        raise ValueError(f"{', '.join(twice)} is listed more than once; keep one")
    return values


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Count = Annotated[int, Field(gt=0, le=10**9)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=0, le=10**9)]
Size = Annotated[int, Field(gt=0, le=65_536)]  # of an image or a layer
Depth = Annotated[int, Field(gt=0, le=DEEPEST)]  # of a recursion
Positive = Annotated[float, Field(gt=0, le=1e9)]
NonNegative = Annotated[float, Field(ge=0, le=1e9)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]  # of a moving average; at 1 it would never change
Folder = Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?$")]  # below here
FileName = Annotated[str, Field(pattern=r"^[^./\x00-\x1f][^/\x00-\x1f]*$", max_length=200)]  # without a folder
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.-]+$")]  # of LaTeX: a label, a reference
Once = AfterValidator(_each_once)  # refuses a tuple with equal entries
SHA256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, str_max_length=10_000)
