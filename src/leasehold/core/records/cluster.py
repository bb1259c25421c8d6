"""The cluster itself: its settings, its counters, its leader, its nodes."""

from leasehold.core.records.base import Record
from leasehold.ids import (
    ClusterId,
    Generation,
    Incarnation,
    NodeId,
    Nonce,
    ObjectId,
    Term,
)


class ClusterRecord(Record, frozen=True, kw_only=True, tag="cluster/1"):
    """Written once, by initialisation."""

    cluster_id: ClusterId
    generation: Generation
    format_version: int


class SettingsRecord(Record, frozen=True, kw_only=True, tag="settings/1"):
    """What the cluster must agree on; changed by statements, never by a process's configuration."""

    lease_duration_ns: int
    lease_margin_ns: int
    drift_ppm: int
    catch_up_difference: int
    min_in_sync: int


class CountersRecord(Record, frozen=True, kw_only=True, tag="counters/1"):
    """The next number of each kind; they only grow."""

    next_node: NodeId
    next_object: ObjectId
    next_procedure: int
    next_transaction: int
    next_login: int = 1


class LargestLeaseRecord(Record, frozen=True, kw_only=True, tag="largest-lease/1"):
    """An upper bound on the duration of every grant that may still be outstanding."""

    duration_ns: int


class LeaderRecord(Record, frozen=True, kw_only=True, tag="leader/1"):
    """Who leads; lies outside the watched range."""

    generation: Generation
    term: Term
    holder: str
    beat: int
    duration_ns: int


class NodeRecord(Record, frozen=True, kw_only=True, tag="node/1"):
    """A data node. `incarnation` 0: allocated an id, never joined."""

    id: NodeId
    name: str
    address: str
    token_hash: bytes
    incarnation: Incarnation
    nonce: Nonce | None
    session_hash: bytes | None
    removed: bool
