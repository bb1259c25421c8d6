"""The cluster itself: its settings, its counters, its leader, its nodes."""

import msgspec

from leasehold.core.words.records.base import Record
from leasehold.ids import ClusterId, Generation, Incarnation, LineageHash, NodeId, Nonce, ObjectId, Revision, Term
from leasehold.limits.log import LEADERSHIP_DURATION_NS
from leasehold.limits.membership import REPLACE_AFTER_NS
from leasehold.limits.metastorage import RETENTION_BYTES, RETENTION_NS, RETENTION_REVISIONS
from leasehold.limits.replication import REPAIR_RATE
from leasehold.limits.scrub import SCRUB_EVERY_NS
from leasehold.limits.upkeep import CLOCK_STEP_NS


class GenerationOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a generation begins: of the one that it `left` it keeps all up to `revision`, with this history hash."""

    generation: Generation
    left: Generation
    revision: Revision
    lineage: LineageHash


class ClusterRecord(Record, frozen=True, kw_only=True, tag="cluster/1"):
    """Written by initialisation, and by each recovery of a lost meta storage (`core.membership.generations`)."""

    cluster_id: ClusterId
    generation: Generation
    format_version: int
    origins: tuple[GenerationOrigin, ...] = ()
    """Of the newest generations, oldest first; the first generation has none."""
    strangers: bool = False
    """Nodes that this meta storage knows nothing of may hold leases of a lost one, until the largest has ended."""
    rebalancing: bool = False
    """A rebalance is under way (`core.replicas.spread`)."""
    local_reads: int = 1
    """A setting: whether readers may open the files of a node on their machine, as an index of its words. The record of
    the other settings is full: with one field more, its bytes would be others where no field is."""


class SettingsRecord(Record, frozen=True, kw_only=True, tag="settings/1"):
    """What the cluster must agree on; changed by statements, never by a process's configuration."""

    lease_duration_ns: int
    lease_margin_ns: int
    drift_ppm: int
    catch_up_difference: int
    """Revisions by which a node may lie behind and still say that its recovery is finished."""
    min_in_sync: int
    """Nodes that must hold a segment at its commit; 0 where that follows from the table
    (`core.replicas.replication`)."""
    retention_ns: int = RETENTION_NS
    """How long the history of the meta storage is kept at least, unless one of the next two is exceeded."""
    retention_revisions: int = RETENTION_REVISIONS
    """The most revisions that are kept, apart from those that a recovering node holds."""
    clock_step_ns: int = CLOCK_STEP_NS
    """By how much the wall clock of a leader may step ahead and still make rows expire (`core.data.wallclock`)."""
    retention_bytes: int = RETENTION_BYTES
    """The most bytes of keys and values that are kept, apart from those that a recovering node holds."""
    leadership_duration_ns: int = LEADERSHIP_DURATION_NS
    """How long a leader of several coordinators leads after it sent its last beat, from its election on."""
    scrub_every_ns: int = SCRUB_EVERY_NS
    """In which time a node reads each of its segment files once (`node/disk/scrub.py`); 0 for never."""
    replace_after_ns: int = REPLACE_AFTER_NS
    """How long a node is away before its buckets get other replicas; 0: they never do (`core.replicas.absence`)."""
    repair_rate: int = REPAIR_RATE
    """Bytes that each node copies from others in a second, on average."""
    rebalance: int = 0
    """Whether a leader begins a rebalance by itself: an index of the words of the setting (`core.ddl.settings`)."""


class CountersRecord(Record, frozen=True, kw_only=True, tag="counters/1"):
    """The next number of each kind; they only grow."""

    next_node: NodeId
    next_object: ObjectId
    next_procedure: int
    next_transaction: int
    next_login: int = 1
    topology: int = 0
    """Version of the logical topology: how often a node has entered or left it."""
    next_segment: int = 1
    """See `SegmentRecord.number`."""


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
    nonce: str = ""
    """128 random bits in hex, drawn by the process that was elected."""
    successor: str = ""
    """Of a holder that resigned: the candidate that the others let go first."""


class CoordinatorRecord(Record, frozen=True, kw_only=True, tag="coordinator/1"):
    """One of several coordinators, at the address where the others, nodes and clients reach it."""

    address: str
    name: str
    version: str
    """Of the program."""


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
    """Its id and token are tombstones: nobody joins with them again."""
    member: bool = False
    """In the logical topology: this incarnation has finished its recovery, and has not left since."""
    left: bool = False
    """This incarnation was in the logical topology, and has left it."""
    capabilities: tuple[str, ...] = ()
    """What the program of this incarnation can do beyond what every version can."""
    draining: bool = False
    """It gives up its buckets, and gets none (`core.membership.drain`)."""
    rack: str = ""
    """What it may share a fate with other nodes by, as its process said; empty if it said nothing."""
    end_hash: bytes = b""
    """Of the end proof of this incarnation's process; empty where an older leader let it in."""


class CertifiedNameRecord(Record, frozen=True, kw_only=True, tag="certified-name/1"):
    """A name that somebody had before, who may still have a certificate of it."""

    name: str
    """Of a removed node, or `client/` and the folded name of a user who was dropped or renamed."""
    from_s: int
    """A certificate of this name counts only if it begins at this time or later, in seconds since 1970 UTC; 0 where no
    certificate has logged the next user in yet."""


class RevokedCertificateRecord(Record, frozen=True, kw_only=True, tag="revoked-certificate/1"):
    """A certificate that counts no more."""

    serial: str
    """In lower-case hex, without leading zeros."""
