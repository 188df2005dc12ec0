"""Sign the results of 0.1 again for the stages of 0.2. Nothing is computed again.

Each receipt keeps its files and `made`. Its parts are written as 0.2 names them, after a check that they say the same:
`fetch/NAME` is dataset/NAME or network/NAME; what `evaluate` read below `sample` stands beside the rest, the number of
images as `drawn`; tables have no `foreign`. Code has a new kind of hash, so it cannot be compared: run this on results
that were fresh (`rtm lineage check` with 0.1), as all of the desk were:

    python migrate.py REVISION      # the commit with the receipts of 0.1
"""

import json
import subprocess
import sys
from pathlib import Path

from rtm.core.files import write_json
from rtm.lineage.changes import changes
from rtm.lineage.freshness import Freshness
from rtm.lineage.receipts import JSON, fingerprint_of
from rtm.stages.base import Job
from rtm.stages.graph import every_job

SAMPLED = ("decoder", "dim", "mapper", "seed", "stylegan2", "tf32", "variants")


def old_receipt(job: Job) -> JSON | None:
    """The receipt that 0.1 wrote, from git."""
    stage = "fetch" if job.stage.name in ("dataset", "network") else job.stage.name
    path = Path(job.root) / "lineage" / stage / f"{job.name}.json"
    text = subprocess.run(["git", "show", f"{REVISION}:{path}"], capture_output=True, text=True, check=False).stdout
    return json.loads(text) if text else None


def old_values(job: Job, params: JSON) -> JSON:
    """The values of an old receipt in the words of 0.2."""
    if job.stage.name == "evaluate":
        sample = params.pop("sample")
        for name in SAMPLED:
            assert params.get(name, sample[name]) == sample[name], name
        return params | {name: sample[name] for name in SAMPLED} | {"drawn": sample["samples"]}
    if job.stage.name in ("table", "figure"):
        assert params.pop("foreign", {}) == {}
    return params


def migrate(job: Job) -> bool:
    receipt = old_receipt(job)
    if receipt is None:
        return False
    parts = Freshness().parts(job)
    params = old_values(job, receipt["parts"]["params"])
    assert not [*changes(params, parts["params"])], (job.id, [*changes(params, parts["params"])])
    inputs = {new_name(name): value for name, value in receipt["parts"]["inputs"].items()}
    inputs = {
        name: value for name, value in inputs.items() if "/sample/" not in name and not name.startswith("sample/")
    }
    if inputs != parts["inputs"]:
        other = {
            name for name in inputs.keys() | parts["inputs"].keys() if inputs.get(name) != parts["inputs"].get(name)
        }
        print(job.id, "inputs", {name: (inputs.get(name), parts["inputs"].get(name)) for name in other})
    outputs = {str(path) for path in job.outputs.values()}
    assert receipt["outputs"].keys() == outputs, (job.id, receipt["outputs"].keys() ^ outputs)
    signed = {**receipt, "parts": parts, "fingerprint": fingerprint_of(job.stage.name, parts)}
    write_json(job.receipt, signed)
    return True


def new_name(name: str) -> str:
    kind, _, rest = name.partition("/")
    if kind != "fetch":
        return name
    return f"network/{rest}" if rest in ("inception", "vgg16", "dinov2", "digit_classifier") else f"dataset/{rest}"


if __name__ == "__main__":
    REVISION = sys.argv[1]
    jobs = every_job().values()
    print(sum(migrate(job) for job in jobs), "receipts")
