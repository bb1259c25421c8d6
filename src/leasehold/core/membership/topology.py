"""The logical topology: the nodes that have finished their recovery (docs/recovery.md).

| a node's incarnation | event                                             | next          |
| let in               | it says that it has recovered, and is near enough | member        |
| member               | surrender, or a join of the next incarnation      | no member     |
| member               | its lease and its session have been gone for long | no member     |
| any                  | removal                                           | no member     |
| no member            | it says so again, same incarnation                | member        |

Each change is one transaction, which counts the topology's version. A node that leaves gets no grant from the decision
on. A node that enters gets one once it has applied the revision at which it entered (R4). So a node that has left does
not have to know it (R14).
"""

from typing import TypeAlias

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.lease.grants import HeldLease
from leasehold.core.words import keys
from leasehold.core.words.messages import RecoveryAccepted, RecoveryBehind
from leasehold.core.words.operations import Change
from leasehold.core.words.records import NodeRecord
from leasehold.ids import Incarnation, Revision
from leasehold.limits.membership import TOPOLOGY_GRACE_NS


class Enter(msgspec.Struct, frozen=True, kw_only=True):
    """Write these: the node has to apply their revision for a lease."""

    changes: tuple[Change, ...]


Entrance: TypeAlias = Enter | RecoveryAccepted | RecoveryBehind | None
"""`RecoveryAccepted` if it is a member already; None if another incarnation lives by now, or this one is closed."""


def decide_entrance(
    catalog: Catalog, node: NodeRecord, incarnation: Incarnation, applied: Revision, held: HeldLease | None
) -> Entrance:
    """What becomes of a node that says it has recovered up to `applied`; `held` is what the grantor knows of it."""
    assert catalog.settings is not None
    if held is None or held.closed is not None or node.removed:
        return None
    if not node.incarnation == held.incarnation == incarnation:
        return None
    difference = catalog.settings.catch_up_difference
    if catalog.revision - applied > difference:
        return RecoveryBehind(latest=catalog.revision, catch_up_difference=difference)
    if not node.member:
        return Enter(changes=entered(node, catalog))
    # Told to leave by a leader that could not write it, it enters again without a write.
    return RecoveryAccepted(required=catalog.revision if held.required is None else held.required)


def has_to_leave(node: NodeRecord, held: HeldLease | None, absent_since_ns: int | None, now_ns: int) -> bool:
    """Whether a member has to leave: it gave its lease back, or its lease has ended (R15) and no session of it has been
    open for TOPOLOGY_GRACE_NS. `absent_since_ns` is None while one is."""
    if not node.member or held is None or held.incarnation != node.incarnation:
        return False
    if held.closed is not None:
        return True
    if absent_since_ns is None or now_ns < held.bound_ns:
        return False
    return now_ns - absent_since_ns >= TOPOLOGY_GRACE_NS


def entered(node: NodeRecord, catalog: Catalog) -> tuple[Change, ...]:
    return (put(keys.node(node.id), msgspec.structs.replace(node, member=True, left=False)), counted(catalog))


def left(node: NodeRecord, catalog: Catalog) -> tuple[Change, ...]:
    """What takes it out; nothing if it is no member."""
    if not node.member:
        return ()
    return (put(keys.node(node.id), msgspec.structs.replace(node, member=False, left=True)), counted(catalog))


def counted(catalog: Catalog) -> Change:
    """The counters with the next version of the topology."""
    assert catalog.counters is not None
    return put(keys.COUNTERS, msgspec.structs.replace(catalog.counters, topology=catalog.counters.topology + 1))
