"""From which of several states a cluster goes on whose newest meta storage is lost: the newest that is whole.

Each state is known by its facts: cluster, generation, revision, the history hash there, and the digest of its keys and
values. A later generation is newer than any revision of an earlier one, since a person began it. Two states of one
revision have to be equal in hash and digest. If the hashes differ, either may be the one that nodes and clients have
seen. If only the digests differ, one of the two is damaged: the file of a coordinator has no checksums of old values.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from leasehold.core.recovery.backup import BackupFacts
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused

OTHER_HISTORY: Final = "find out which of the two nodes and clients have followed, and leave out the other --from"
DAMAGED: Final = (
    "their histories are one, so one of them is damaged: leave out the --from of the coordinator with a file of its own"
)


class FoundState(msgspec.Struct, frozen=True):
    """A whole state, and where it is."""

    path: Path
    facts: BackupFacts


def newest(states: Sequence[FoundState]) -> FoundState:
    """The newest state, of equal ones the first. Raises `NotFound` with code NOTHING_WHOLE, and `Refused` with code
    OTHER_CLUSTER or DIVERGED."""
    if not states:
        raise NotFound(
            "none of these places holds a whole state of a cluster",
            code=ErrorCode.NOTHING_WHOLE,
            hint="name more places with --from: backups, directories of coordinators and of nodes, copies of them",
        )
    first = states[0]
    for one in states:
        if one.facts.cluster.cluster_id != first.facts.cluster.cluster_id:
            raise Refused(
                f"{first.path} is of cluster {first.facts.cluster.cluster_id}, and {one.path} of cluster"
                f" {one.facts.cluster.cluster_id}",
                code=ErrorCode.OTHER_CLUSTER,
                hint="give --from only what belongs to the cluster that is to go on",
            )
    best = max(states, key=age)
    for one in states:
        if age(one) == age(best) and _content(one) != _content(best):
            raise Refused(
                f"{best.path} and {one.path} differ, though both are at revision {best.facts.end.revision} of"
                f" generation {best.facts.cluster.generation}",
                code=ErrorCode.DIVERGED,
                hint=OTHER_HISTORY if one.facts.end.lineage != best.facts.end.lineage else DAMAGED,
            )
    return best


def age(state: FoundState) -> tuple[int, int]:
    """What is greater for a newer state."""
    return state.facts.cluster.generation, state.facts.end.revision


def _content(state: FoundState) -> tuple[bytes, bytes]:
    return state.facts.end.lineage, state.facts.end.digest
