"""Lost segments: all nodes that held them were removed by force.

A scan shows all rows of its table or none, so it ends with SEGMENTS_LOST, which says how many rows are lost. A user who
may delete rows can then give these rows up: `forget_lost` removes the entries of lost segments from the manifest, and
scans show the other rows.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from leasehold.core.replicas.lost import lost
from leasehold.core.words.messages import Replaced
from leasehold.limits.segments import SEGMENTS_PER_COMMIT_MAX

if TYPE_CHECKING:
    from leasehold.client.coordinators import Coordinators


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """The lost segments of a table, and their rows; from `revision` on scans show the other rows."""

    segments: int = 0
    rows: int = 0
    revision: int | None = None


def forget_lost(cluster: "Coordinators", table: str, confirm: Callable[[Forgotten], None]) -> Forgotten:
    """Gives up the rows of all lost segments; returns what was given up.

    If something is lost, `confirm` gets how much before anything changes, and may raise to prevent it. Raises `Refused`
    with code NOT_LOST if the segments have changed since: at most a part is done.
    """
    plan = cluster.plan(table)
    missing = lost(plan.segments)
    if not missing:
        return Forgotten()
    confirm(Forgotten(segments=len(missing), rows=sum(one.rows for one in missing)))
    done = Forgotten()
    for start in range(0, len(missing), SEGMENTS_PER_COMMIT_MAX):
        part = missing[start : start + SEGMENTS_PER_COMMIT_MAX]
        transaction = cluster.new_transaction()
        cluster.open_transaction(plan.facts, transaction)
        replaces = tuple(Replaced(bucket=one.bucket, segment=one.id) for one in part)
        committed = cluster.commit(plan.facts.cluster_id, transaction, (), replaces=replaces, forgets=True)
        done = Forgotten(
            segments=done.segments + len(part),
            rows=done.rows + sum(one.rows for one in part),
            revision=committed.revision,
        )
    return done
