"""The metrics of one set of images against another: attributes, a table, and all that is known of them as JSON."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rtm.config.catalogue import Metric, measured_metrics
from rtm.core.errors import UserError

WIDTH = 80
Content = Mapping[str, Any]


class Result:
    """`result.fid`, `result.fid_interval`, `result.as_dict()`; it prints as a table."""

    def __init__(self, content: Content) -> None:
        self.content = content

    def __getattr__(self, name: str) -> Any:
        metrics: Mapping[str, float] = self.__dict__["content"]["metrics"]
        intervals: Mapping[str, tuple[float, float]] = self.__dict__["content"]["intervals"]
        bounds = {f"{metric}_interval": interval for metric, interval in intervals.items()}
        known = {**metrics, **bounds}
        if name not in known:
            raise AttributeError(f"This result has {', '.join(known)}, not {name}.")
        return known[name]

    def __str__(self) -> str:
        return "\n".join(lines_of(self.content))

    def as_dict(self) -> dict[str, Any]:
        return dict(self.content)

    def refuse_differences(self) -> None:
        """Raise an error if another package has another value."""
        differing = [row["metric"] for row in self.content.get("witnesses", ()) if row["differs"]]
        if differing:
            raise UserError(f"Another package has another value of {', '.join(differing)}; see `differs` above.")


def lines_of(result: Content) -> Iterator[str]:
    """The printed lines of a result, within 80 columns."""
    yield from textwrap.wrap(_title(result), WIDTH)
    for kind, sentences in (("off protocol", result["off_protocol"]), ("note", result["notes"])):
        for sentence in sentences:
            yield from textwrap.wrap(f"{kind}: {sentence}", WIDTH)
    yield f"\n{'':<12} {'':>10}   95 % interval"
    missing = result.get("missing", {})
    for metric in measured_metrics():
        if metric.name in result["metrics"]:
            value = _shown(metric, result["metrics"][metric.name])
            yield f"{metric.short:<12} {value:>10}   {_beside(result, metric)}".rstrip()
        elif metric.name in missing:
            line = f"{metric.short:<12} {'none':>10}   {missing[metric.name]}"
            yield from textwrap.wrap(line, WIDTH, subsequent_indent=" " * 26, drop_whitespace=True)
    if "witnesses" in result:
        yield from _witnesses(result["witnesses"])
    if says := result.get("memorisation", {}).get("says"):
        yield from textwrap.wrap(f"copies: {says}", WIDTH)


def _witnesses(rows: Sequence[Content]) -> Iterator[str]:
    """Our values beside those of other packages, with the seconds and megabytes of both."""
    yield f"\n{'the same features':<26} {'rtm':>12} {'theirs':>12} {'s':>11} {'MB':>13}"
    for row in rows:
        name = f"{row['metric']:<10} {row['package']}"
        seconds = "{:.1f}, {:.1f}".format(*row["seconds"])
        memory = "{:.0f}, {:.0f}".format(*row["megabytes"])
        line = f"{name:<26} {row['ours']:>12.6g} {row['theirs']:>12.6g} {seconds:>11} {memory:>13}"
        yield line + ("  differs" if row["differs"] else "")


def _title(result: Content) -> str:
    one = result["images"]
    reference = result["reference"]
    part = f"of its {one['found']:,} " if one["found"] > result["samples"] else ""
    measured = f"{one['name']} ({result['samples']:,} {part}images)"
    return f"{measured} against {reference['name']} ({reference['images']:,} images), protocol {result['protocol']}"


def _beside(result: Content, metric: Metric) -> str:
    if metric.name == "fid_floor":
        some, others = result["floor"]
        return f"FID of {some:,} against {others:,} of the reference's own"
    bounds = result["intervals"].get(metric.name, ())
    return " to ".join(_shown(metric, bound) for bound in bounds)


def _shown(metric: Metric, value: float) -> str:
    return f"{value * metric.times:.{metric.digits}f}"
