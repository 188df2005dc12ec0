"""dvc.yaml from the stages, params/ and receipts: `rtm lineage dvc` writes it, and data.dvc (dvc_data.py).

Each stage of DVC shows what it makes, from which files and which keys of params/, by which command of Snakemake; the
code behind it is a hash in lineage/code.yaml, which the first stage writes. DVC records; receipts decide what runs.

dvc.yaml has only stages with results, because DVC would report each output of an unmade stage as missing. A scale that
DVC keeps (the demo, a trial) is listed as a whole or not at all. If git keeps a scale's results, DVC may keep the
checkpoints of only some experiments (`kept`), and no galleries.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from rtm.config import load
from rtm.config.loading import trials
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.core.readers import UNREADABLE
from rtm.pipeline import dvc_data
from rtm.pipeline.dvc_stages import DvcStage, ScaleStages, stage_name
from rtm.stages.base import upstream
from rtm.stages.graph import jobs
from rtm.stages.summary import Summary

FILE = Path("dvc.yaml")
CODE = Path("lineage/code.yaml")
SCALES = ("demo", "desk", "paper")  # in the order in which `dvc repro` runs them; smoke is only for tests
HEADER = """\
# Written by `rtm lineage dvc` from params/ and receipts: what is made, of the demo, the desk and the paper.
#
# Snakemake asks the receipts first: what is fresh is recorded without running anything. With SNAKEMAKE_PROFILE=slurm it
# submits its jobs.
"""
CODE_HEADER = "# Written by `rtm lineage code`: the code behind each stage of dvc.yaml.\n"
SWEPT = ("fid", "precision", "recall")
Stanza = dict[str, Any]  # an entry of dvc.yaml


def write(whole: bool = False, more: Iterable[str] = ()) -> None:
    """Write dvc.yaml with the listed stages and new results (or with everything, if `whole`), and the trials `more`."""
    names = listed() | {stage_name(trial) for trial in more}
    write_text(FILE, render(names, whole))
    write_code()
    dvc_data.write()


def render(names: set[str], whole: bool = False) -> str:
    """The text of dvc.yaml with these stages, those behind them, and those that are made."""
    stanzas: dict[str, Stanza] = {"code": CODE_STAGE}
    plots: list[Stanza] = []
    files: set[str] = set()
    for scale in _scales(names):
        chosen = scale.chosen(names, whole)
        stanzas |= {stage.name: _stanza(scale, stage) for stage in chosen}
        plots += _sweeps(scale, {stage.name for stage in chosen})
        files |= {str(file) for file in scale.files.values()}
    if len(stanzas) == 1:
        stanzas = {}  # nothing is made
    texts = [_dumped({name: stanza}, indent=2) for name, stanza in stanzas.items()] or ["  {}\n"]
    head = _dumped({"params": sorted(files), "plots": plots})  # for `dvc params diff` and `dvc plots`
    return f"{HEADER}{head}\nstages:\n" + "\n".join(texts)


def listed() -> set[str]:
    """The names of the stages that dvc.yaml has now; none if it cannot be read."""
    with suppress(*UNREADABLE, yaml.YAMLError):
        return set(yaml.safe_load(FILE.read_text("utf-8"))["stages"])
    return set()


def check() -> None:
    if not FILE.exists() or FILE.read_text("utf-8") != render(listed()):
        raise UserError(f"{FILE} is older than params/; write it anew with `rtm lineage dvc`.")


def write_code() -> None:
    """Write a hash of the code behind every stage, listed or not: the command of DVC's first stage."""
    hashes = {stage.name: stage.code for scale in _scales(listed()) for stage in scale.stages()}
    write_text(CODE, f"{CODE_HEADER}{_dumped(hashes)}")


def _scales(names: set[str]) -> Iterator[ScaleStages]:
    """The scales of params/, and the trials among these names."""
    known = load().params.scales
    scales = [name for name in SCALES if name in known]
    scales += [trial for trial in trials() if stage_name(trial) in names]
    measured = [job for job in jobs(load("paper")).values() if "experiment" in job.names]
    in_git = {job.id for job in upstream(measured)}
    for name in scales:
        yield ScaleStages(load(name), in_git)


def _stanza(scale: ScaleStages, stage: DvcStage) -> Stanza:
    """The entry of a stage."""
    read = dict(stage.keys)
    if scale.config.scale.overrides and read:
        read["scales"] = [f"{scale.config.scale_name}.overrides"]
    keys: dict[str, list[str]] = defaultdict(_Words)
    for section, names in read.items():
        for name in names:
            keys[str(scale.files[section])].append(f"{section}.{name}")
    params: list[Stanza] = [{file: keys[file]} for file in sorted(keys)]
    params.append({str(CODE): _Words([stage.name])})
    stanza: Stanza = {"cmd": f"snakemake --cores all -- {' '.join(stage.targets)}"}
    if stage.deps:
        stanza["deps"] = list(map(str, stage.deps))
    stanza["params"] = params
    for kind, outs in stage.outs.items():
        if outs:
            stanza[kind] = [{path: _Row(options)} for path, options in outs.items()]
    return stanza


def _sweeps(scale: ScaleStages, chosen: set[str]) -> Iterator[Stanza]:
    """Plots of quality and coverage against H, one for each experiment, protocol and metric."""
    for experiment in scale.config.experiments.values():
        if experiment.sweep and experiment.name in chosen:
            file = str(Summary().path(scale.config, "sweep", experiment=experiment.name))
            for protocol in experiment.recipe.evaluation.protocols:
                for metric in SWEPT:
                    name = f"{protocol}.{metric}"
                    axes = {"x": "H", "y": {file: name}}
                    yield {f"{experiment.name}: {name} against H": axes}


class _Row(dict[str, Any]):
    """A mapping that is written on one line."""


class _Words(list[str]):
    """A list that is written on one line."""


CODE_STAGE: Stanza = {"cmd": "rtm lineage code", "deps": ["rtm"], "outs": [{str(CODE): _Row(cache=False)}]}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(_Row, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, True))
_Dumper.add_representer(_Words, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, True))


def _dumped(value: Any, indent: int = 0) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=120)
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))
