"""docs/architecture.md shows the stages as they are: the arrows between them, and every file with its keeper."""

from support import ROOT

from rtm.stages import stages
from rtm.stages.base import Stage

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
KEEPERS = {"git": "git", "dvc": "DVC", "nobody": "nobody", None: "git or DVC, by the scale"}


def arrow(stage: Stage) -> str:
    readers = [name for name, other in stages().items() if stage.name in other.reads and name != stage.name]
    return f"    {stage.name} --> {' & '.join(readers)}"


def row(stage: Stage) -> str:
    files = ", ".join(f"`{path}`".replace("{", "<").replace("}", ">") for path in stage.files.values())
    purpose = str(type(stage).__doc__).splitlines()[0].rstrip(".")
    return f"| `{stage.name}` | {purpose} | {files} | {KEEPERS[stage.keeper]} |"


def test_the_picture_has_every_arrow() -> None:
    picture = PAGE.partition("## The stages")[2].partition("```mermaid\n")[2].partition("```")[0]
    arrows = [arrow(stage) for stage in stages().values() if stage.name != "report"]
    assert picture == "\n".join(["flowchart LR", *arrows, ""])


def test_the_table_has_every_file() -> None:
    rows = "\n".join(row(stage) for stage in stages().values())
    assert f"| stage | what it does | files | kept by |\n|---|---|---|---|\n{rows}\n" in PAGE
