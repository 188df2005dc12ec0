"""Accept the present code of stale results and begun trainings as the same, after a refactoring."""

from collections.abc import Iterable

from rtm.core.errors import UserError
from rtm.lineage.acceptance import Acceptance, append
from rtm.lineage.begun import is_unfinished, other_code, run_folder
from rtm.lineage.environment import author, now, revision
from rtm.lineage.freshness import Freshness
from rtm.lineage.receipts import contradictions
from rtm.stages.base import Job, upstream


def accept(jobs: Iterable[Job], reason: str) -> list[Acceptance]:
    """Accept all that is stale behind the jobs, inputs first. If one cannot be accepted, none is: an error."""
    freshness = Freshness()
    accepted: dict[tuple[str, str, str], Acceptance] = {}
    for job in upstream(jobs):
        for code in _stale_codes(freshness, job):
            present = str(freshness.parts(job)["code"])
            pattern = f"{job.root}{job.stage.name}/*"
            same = (pattern, code, present)
            accepted[same] = Acceptance(*same, reason, author(), now(), revision())
    append(accepted.values())
    return list(accepted.values())


def _stale_codes(freshness: Freshness, job: Job) -> list[str]:
    """The codes of a job's result and of its begun training that are not the present one."""
    codes = []
    receipt = freshness.receipt(job)
    if receipt and not freshness.is_same_code(job, receipt["parts"]["code"]):
        problems = [*contradictions(job, receipt), *freshness.changed_values(job, receipt)]
        if problems := [*problems, *freshness.changed_files(receipt)]:
            raise UserError(f"{job.id} cannot be accepted: {'; '.join(problems)}. {freshness.advice(job)}")
        codes.append(str(receipt["parts"]["code"]))
    if job.stage.name == "train":
        folder = run_folder(job, freshness.parts(job))
        code = other_code(freshness, job, folder)
        if code and is_unfinished(folder):
            codes.append(code)
    return codes
