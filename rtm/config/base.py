"""The base of every model of `params/`: it refuses unknown keys, wrong types and impossible values."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

T = TypeVar("T")


def _each_once(values: tuple[T, ...]) -> tuple[T, ...]:
    twice = dict.fromkeys(str(value) for value in values if values.count(value) > 1)
    if twice:
        raise ValueError(f"{', '.join(twice)} is listed more than once; keep one")
    return values


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Count = Annotated[int, Field(gt=0)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Once = AfterValidator(_each_once)  # of a tuple
SHA256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
