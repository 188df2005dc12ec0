"""What git knows: the code that changed since a receipt, and all versions of a file."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rtm.lineage.code import PACKAGE, module_name, present, syntax
from rtm.lineage.receipts import JSON
from rtm.stages.base import Job


def changed_code(job: Job, receipt: JSON) -> str:
    """A sentence about the files behind a job that changed since its receipt, which names a commit."""
    revision = str(receipt["made"].get("revision") or "").removesuffix("-dirty")
    try:
        listed = _git("diff", "--name-only", "--relative", revision, "--", PACKAGE.name).decode()
    except (OSError, subprocess.CalledProcessError):
        return f"its code changed; git has no commit {revision or 'of it'} to say where"
    changed = [name for name in listed.splitlines() if _counts(name, job, revision)]
    if not changed:
        return f"its code was changed after commit {revision[:12]}, and never committed"
    return f"code of {', '.join(changed)} changed: `git diff {revision[:12]} -- {' '.join(changed)}`"


def _counts(path: str, job: Job, revision: str) -> bool:
    """Whether a changed file is code of a job, and more than comments and layout changed."""
    name = module_name(Path(path)) if path.endswith(".py") else path
    reached = {entry.partition(":")[0] for entry in present().reached(job.code)}
    if name not in reached:
        return False
    now = present().modules.get(name)
    if now is None:
        return True
    with suppress(subprocess.CalledProcessError):  # it was not there
        then = _git("show", f"{revision}:./{path}").decode()
        return syntax(then) != syntax(now)
    return True


def committed_versions(path: str) -> list[bytes]:
    """All versions of a file, or of the files that a pattern of git names, in all commits of all branches."""
    with suppress(OSError, subprocess.CalledProcessError):
        log = _git("log", "--all", "--format=", "--raw", "--no-abbrev", "--no-renames", "--", path)
        rows = [line.split() for line in log.decode().splitlines() if line]
        blobs = {row[3] for row in rows} - {"0" * 40}
        return list(_contents("\n".join(sorted(blobs))))
    return []


def _contents(blobs: str) -> Iterator[bytes]:
    """The bytes of blobs, from one call of git."""
    output = _git("cat-file", "--batch", given=blobs.encode())
    while output:
        head, _, rest = output.partition(b"\n")
        size = int(head.split()[2])
        yield rest[:size]
        output = rest[size + 1 :]


def _git(*words: str, given: bytes | None = None) -> bytes:
    return subprocess.run(["git", *words], input=given, capture_output=True, check=True).stdout
