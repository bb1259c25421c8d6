"""Where the copies of a real cluster are: whether a machine may burn now, and whether all is whole in the end."""

from pathlib import Path

from leasehold.cli.questions import ask
from leasehold.client.coordinators import Coordinators
from leasehold.core.questions.nodes import DRAINED
from leasehold.core.questions.repairs import COPIES
from leasehold.ids import NodeId
from tests.e2e.waiting import files_below

WORKS = ("drain", "rebalance", "repair")


def under_way_if_expendable(cluster: Coordinators, node: str) -> list[str] | None:
    """What the cluster does while it loses a node whose process is dead; None if others that serve don't hold all that
    it holds. Nobody may write meanwhile. Raises `LeaseholdError` where that can't be known."""
    nodes = ask(cluster, "SHOW NODES")
    serving = {NodeId(one["id"]) for one in nodes if one["state"] == "ACTIVE" and one["name"] != node}
    for table, _ in _tables(cluster):
        if any(serving.isdisjoint(segment.holders) for segment in cluster.plan(table).segments):
            return None
    works = (
        any(one["drain"] not in {None, DRAINED} for one in nodes),
        any(one["state"] == "MOVING" for one in ask(cluster, "SHOW REBALANCE")),
        any(one["work"] == COPIES for one in ask(cluster, "SHOW REPAIRS")),
    )
    return [what for what, is_under_way in zip(WORKS, works, strict=True) if is_under_way]


def wrong_copies(cluster: Coordinators, directory: Path) -> list[str]:
    """Buckets with fewer copies than the serving nodes allow, or with more than their table wants; files that no
    bucket needs. Nobody writes meanwhile."""
    serving = {one["name"] for one in ask(cluster, "SHOW NODES") if one["state"] == "ACTIVE"}
    wrong: list[str] = []
    wanted_files = 0
    for table, replication in _tables(cluster):
        wanted = min(replication, len(serving))
        buckets = ask(cluster, f"SHOW BUCKETS OF {table}")
        wrong += [f"{table}: {one}" for one in buckets if _is_wrong(one, serving, wanted)]
        wanted_files += sum(len(one.holders) for one in cluster.plan(table).segments)
    files = sum(len(files_below(one, ".parquet")) for one in directory.glob("node-*/segments"))
    return wrong if wrong or files == wanted_files else [f"{files} files of segments, {wanted_files} are wanted"]


def _is_wrong(bucket: dict[str, object], serving: set[str], wanted: int) -> bool:
    replicas, in_sync = (set(str(bucket[name]).split(", ")) for name in ("replicas", "in_sync"))
    return not replicas == in_sync <= serving or not len(replicas) == bucket["copies"] == wanted


def _tables(cluster: Coordinators) -> list[tuple[str, int]]:
    """Each with its replication."""
    return [(f"{one['database']}.{one['table']}", one["replication"]) for one in ask(cluster, "SHOW TABLES")]
