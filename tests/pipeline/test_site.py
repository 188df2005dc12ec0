"""What a cluster has and allows, and the jobs that are refused."""

from collections.abc import Callable

import pytest

from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.pipeline import site
from rtm.pipeline.site import Node, Site, gpus, largest_memory, minutes, refuse_impossible

ASKED = Resources(gpus=4, cpus=32, mem_gb=128, hours=336)
SINFO = "printf 'main*\\t1-00:00:00\\nlong\\t7-00:00:00\\n'"
Programs = Callable[..., None]


@pytest.mark.parametrize(
    ("gres", "model", "count"),
    [
        ("gpu:h100:8(S:0-1)", "h100", 8),
        ("gpu:H100:4", "h100", 4),
        ("gpu:8", "h100", 8),
        ("gpu:a100:8", "h100", 0),
        ("gpu:a100:8", "", 8),
        ("gpu:a100:2,gpu:h100:2,shard:8", "h100", 2),
        ("(null)", "h100", 0),
    ],
)
def test_gpus_of_a_node(gres: str, model: str, count: int) -> None:
    assert gpus(gres, model) == count


def test_kinds_of_nodes(programs: Programs) -> None:
    """SLURM writes a plus if nodes of one kind differ."""
    programs(sinfo="printf 'gpu:h100:4\\t64+\\t512000+\\n(null)\\t128\\t1024000\\n'")
    assert site.nodes("h100") == [Node(4, 64, 512_000), Node(0, 128, 1_024_000)]


@pytest.mark.parametrize(
    ("kinds", "is_refused"),
    [
        ([Node(4, 16, 512_000), Node(0, 128, 1_024_000)], True),  # one node must have it all
        ([Node(4, 16, 512_000), Node(4, 64, 512_000)], False),
        ([Node(4, 64, 127_000)], True),
        ([], False),  # sinfo gave no answer
    ],
)
def test_one_node_must_have_it_all(monkeypatch: pytest.MonkeyPatch, kinds: list[Node], is_refused: bool) -> None:
    monkeypatch.setattr(site, "nodes", lambda model: kinds)
    if not is_refused:
        refuse_impossible("train/x", ASKED, "h100")
        return
    with pytest.raises(UserError, match=r"no node has that \(the largest: 4 GPUs, \d+ cores, \d+ GB\).*gpu_model"):
        refuse_impossible("train/x", ASKED, "h100")


@pytest.mark.parametrize(
    ("kinds", "memory"), [([Node(4, 16, 512_000), Node(0, 128, 1_024_000)], 512_000), ([], 128_000)]
)
def test_the_largest_node_with_the_gpus(monkeypatch: pytest.MonkeyPatch, kinds: list[Node], memory: int) -> None:
    monkeypatch.setattr(site, "nodes", lambda model: kinds)
    assert largest_memory(ASKED, "h100") == memory


@pytest.mark.parametrize(
    ("limit", "number"),
    [("1-00:00:00", 1440), ("2-12", 3600), ("24:00:00", 1440), ("30:00", 30), ("45", 45), ("infinite", float("inf"))],
)
def test_limits_of_partitions_are_minutes(limit: str, number: float) -> None:
    assert minutes(limit) == number


@pytest.mark.parametrize(("partition", "account"), [(None, None), ("long,main", "Proj")])
def test_a_site_that_slurm_knows(programs: Programs, partition: str | None, account: str | None) -> None:
    programs(sinfo=SINFO, sacctmgr="printf 'proj\\n'", sbatch="exit 0")
    Site(partition, account).check()


@pytest.mark.parametrize(
    ("partition", "account", "message"),
    [
        ("nowhere", None, r"no partition nowhere; set slurm_partition .* to one of main, long"),
        (None, "mine", r"no account mine for you; set slurm_account .* to one of proj"),
        (
            "main",
            "proj",
            r"SLURM refuses slurm_partition main with slurm_account proj: .*Invalid account.*slurm",
        ),
    ],
)
def test_a_site_that_slurm_does_not_know(
    programs: Programs, partition: str | None, account: str | None, message: str
) -> None:
    refusal = "sbatch: error: Invalid account or account/partition combination specified"
    programs(sinfo=SINFO, sacctmgr="printf 'proj\\n'", sbatch=f"echo '{refusal}' >&2; exit 1")
    with pytest.raises(UserError, match=message):
        Site(partition, account).check()


def test_what_slurm_refuses_now_may_wait(programs: Programs) -> None:
    """A node may be under repair, or too many jobs may wait."""
    message = "allocation failure: Requested node configuration is not available"
    programs(sinfo=SINFO, sbatch=f"echo '{message}' >&2; exit 1")
    Site("main", None).check()


@pytest.mark.parametrize(("partition", "limit", "named"), [(None, 1440, "main"), ("long", 10080, "long")])
def test_more_time_than_a_partition_allows_is_refused(
    programs: Programs, partition: str | None, limit: int, named: str
) -> None:
    programs(sinfo=SINFO)
    chosen = Site(partition, None)
    chosen.refuse_long("train/x", limit)
    message = rf"train/x asks for {limit + 1} minutes, and partition {named} allows {limit}; set walltime={limit}"
    with pytest.raises(UserError, match=message):
        chosen.refuse_long("train/x", limit + 1)


def test_a_cluster_that_does_not_answer_is_refused(programs: Programs) -> None:
    programs(sinfo="echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1")
    with pytest.raises(UserError, match="SLURM does not answer"):
        Site(None, None).check()
