"""workflow/rules/*.smk from the stages: each rule shows its files, its command and its resources.

The Snakefile calls `write_rules` before it includes them, so a new stage has a rule at once.
"""

import textwrap
from collections.abc import Iterable
from pathlib import Path

from rtm.core.files import write_text
from rtm.stages import stages
from rtm.stages.base import Stage

FOLDER = Path("workflow/rules")
RULE = """\
# Written from {module} by rtm/pipeline/rules.py; change the stage, not this file.


{local}{about}
rule {name}:
    input:
        plan.inputs(
            "{name}",
{inputs}
        ),
    output:
{outputs}
    log:
        "{{root}}logs/{log}.log",
{cluster}    shell:
        "{start}rtm make '{{wildcards.root}}{job}'{options} > {{log:q}} 2>&1"
"""
LOCAL = """\
localrules:
    {name},


"""
TRAINING = """\
    params:
        gpus=plan.fewer("train"),
    threads: plan.threads("train")
    resources:
        **plan.resources("train"),
        nodes=1,
"""
MEASUREMENT = """\
    group: {group}
    threads: plan.{threads}("{name}")
    resources:
        **plan.resources("{name}"),
        measuring=1,
"""


def write_rules() -> list[str]:
    """Write the rules that differ from their stages, and return the files to include."""
    paths = []
    for stage in stages().values():
        path = FOLDER / f"{stage.name}.smk"
        text = rule(stage)
        if not path.exists() or path.read_text("utf-8") != text:
            write_text(path, text)
        paths.append(str(path))
    return paths


def rule(stage: Stage) -> str:
    """The text of a stage's rule."""
    is_training = stage.name == "train"
    read = {name: stages()[name].files[key] for name, key in stage.reads.items()}
    inputs = [f'{name}="{{root}}{pattern}",' for name, pattern in read.items()]
    made = [pattern for key, pattern in stage.files.items() if key not in stage.optional]
    outputs = [f'"{{root}}{pattern}",' for pattern in made]
    if is_training:  # an old checkpoint stays until the new one is complete
        outputs = [f"update({output[:-1]})," for output in outputs]
    return RULE.format(
        module=type(stage).__module__.replace(".", "/") + ".py",
        local=LOCAL.format(name=stage.name) if stage.local else "",
        about=textwrap.fill(type(stage).__doc__ or "", 118, initial_indent="# ", subsequent_indent="# "),
        name=stage.name,
        inputs=_lines(inputs, 12),
        outputs=_lines(outputs, 8),
        log=_name(stage, ""),
        cluster=_on_a_cluster(stage),
        start="exec " if is_training else "",  # a shell in between would end at the signal to save
        job=_name(stage, "wildcards."),
        options=" {params.gpus}" if is_training else "",
    )


def _on_a_cluster(stage: Stage) -> str:
    """Threads and resources, and the group of the measurements of one checkpoint: one job of SLURM."""
    if stage.local:
        return ""
    if stage.name == "train":
        return TRAINING
    group = f'"{stage.name}"'
    if "experiment" in stage.parts:
        group = '"measure_{root}{experiment}_seed{seed}"' if "seed" in stage.parts else f"plan.group({group})"
    threads = "all_threads" if stage.alone else "threads"
    return MEASUREMENT.format(group=group, threads=threads, name=stage.name)


def _name(stage: Stage, prefix: str) -> str:
    """The name of a job with wildcards: evaluate/{experiment}/{protocol}/seed{seed}."""
    words = [stage.name]
    for part in stage.parts:
        before = "seed" if part == "seed" else ""
        words.append(f"{before}{{{prefix}{part}}}")
    if not stage.parts:
        words.append("index")
    return "/".join(words)


def _lines(lines: Iterable[str], indent: int) -> str:
    return textwrap.indent("\n".join(lines), " " * indent)
