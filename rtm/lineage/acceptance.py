"""Keep results after a refactoring: which changes may be accepted as the same, and the record of an acceptance."""

from collections.abc import Iterable
from contextlib import suppress

from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.lineage.environment import author, now, revision
from rtm.lineage.equivalence import Line, Pair, smallest
from rtm.lineage.format import JSON
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger


def refuse_other(ledger: Ledger, job: Job) -> None:
    """Raise an error if a job changed in a way that no refactoring explains."""
    receipt = ledger.receipt(job)
    if receipt is None:
        raise UserError(f"{job.id} was never made, so there is nothing to accept. {ledger.advice(job)}")
    if problems := [*ledger.untrue(job), *ledger.other_results(job, receipt)]:
        raise UserError(f"{job.id} cannot be accepted: {'; '.join(problems)}. {ledger.advice(job)}")


def proposed(ledger: Ledger, job: Job, reason: str) -> list[Line]:
    """The pairs of definitions that must be accepted as the same, so that a receipt's code equals the present code."""
    receipt = _receipt(ledger, job)
    reasons = ledger.differences(job, receipt)["code"]
    if not reasons:
        return []
    compared = ledger.compared(job, receipt)
    pairs = tuple(compared.changed) if compared else ()
    if compared is None or not compared.equal(pairs):
        raise UserError(f"{job.id} cannot be accepted: {'; '.join(reasons)}. {ledger.advice(job)}")
    facts = {"reason": reason, "author": author(), "revision": revision(), "time": now()}
    return [compared.line(pair, facts) for pair in pairs]


def fewest(ledger: Ledger, lines: Iterable[Line]) -> list[Line]:
    """The lines without lines that follow from the others."""
    return smallest(lines, ledger.comparisons())


def kept_by(ledger: Ledger, job: Job, pairs: tuple[Pair, ...]) -> bool:
    """Whether a receipt's code equals the present code only if the pairs are accepted."""
    with suppress(UserError):  # an unreadable receipt keeps no result
        receipt = None if job.temporary else ledger.receipt(job)
        changed = ledger.differences(job, receipt) if receipt else {}
        if receipt and changed["code"] and not (changed["params"] or changed["inputs"]):
            compared = ledger.compared(job, receipt)
            return compared is not None and compared.equal(pairs)
    return False


def must_sign(ledger: Ledger, job: Job) -> bool:
    """Whether keys of parameters or inputs were added or removed, so that the receipt must be signed again."""
    receipt = ledger.receipt(job)
    changed = ledger.differences(job, receipt) if receipt else {"params": [], "inputs": []}
    return bool(changed["params"] or changed["inputs"])


def sign(ledger: Ledger, job: Job, reason: str) -> None:
    """Sign a receipt again for the present parts, and record this in it."""
    receipt = _receipt(ledger, job)
    signed = {"fingerprint": ledger.fingerprint(job), "parts": ledger.parts(job)}
    accepted = [*receipt.get("accepted", []), trace(ledger, job, receipt, reason)]
    ledger.keep_code(job)
    write_json(job.receipt, {**receipt, **signed, "accepted": accepted})


def accepted_for(ledger: Ledger, job: Job) -> list[Line]:
    """The acceptances that keep a receipt's code equal to the present code."""
    receipt = ledger.receipt(job)
    if receipt is None or receipt["parts"]["code"] == ledger.parts(job)["code"]:
        return []
    compared = ledger.compared(job, receipt)
    ids = {*compared.old, *compared.new} if compared else set()
    return [line for line in ledger.lines if ids & set(line.pair)]


def trace(ledger: Ledger, job: Job, receipt: JSON, reason: str) -> JSON:
    """The record of an acceptance in a receipt."""
    return {
        "reason": reason,
        "changes": ledger.reasons(job, receipt),
        "fingerprint": receipt["fingerprint"],
        "revision": revision(),
        "time": now(),
    }


def _receipt(ledger: Ledger, job: Job) -> JSON:
    receipt = ledger.receipt(job)
    assert receipt is not None
    return receipt
