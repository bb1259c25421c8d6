"""The whole history of a simulated meta storage, at every revision, as an observer of every commit knows it.

Only the decoding of records uses the code under test. Folds are made key by key, to compare them with what a leader
decides on, a node publishes or a vault holds.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec
from rpds import HashTrieMap

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.lineage import GENESIS, next_lineage
from leasehold.core.words.operations import RevisionChanges
from leasehold.core.words.records import (
    BucketRecord,
    LeaderRecord,
    Outcome,
    ProcedureRecord,
    Record,
    SegmentRecord,
    SettingsRecord,
    StatementRecord,
    Step,
    TableRecord,
    TransactionRecord,
    TransactionState,
)
from leasehold.ids import (
    BucketNumber,
    LineageHash,
    NodeId,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    Term,
    TransactionId,
    segment_transaction,
)

COMMITS_MAX: Final = 1_000_000
"""A run that commits more often than this is too long to be remembered whole."""

Fold: TypeAlias = "HashTrieMap[bytes, bytes]"
R = TypeVar("R", bound=Record)


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """A revision of the watched range: the decoded records that it wrote, and those that it replaced."""

    revision: Revision
    wrote: Mapping[bytes, Record | None]
    """By key, None where it was deleted; the lineage left out."""
    before: Mapping[bytes, Record]
    """Of the same keys, those that were there."""
    lineage: LineageHash
    follows: bool
    """Whether its lineage follows from the one before it."""
    real_ns: int

    def written(self, kind: type[R]) -> list[R]:
        """The records of a kind that it wrote."""
        return [one for one in self.wrote.values() if isinstance(one, kind)]

    def deleted(self, kind: type[R]) -> list[R]:
        """The records of a kind that it deleted, as they were."""
        return [one for key, one in self.before.items() if isinstance(one, kind) and self.wrote[key] is None]

    def crossings(self) -> list[tuple[bytes, ProcedureRecord]]:
        """The procedures, as they were, that pass their point of no return with this revision; by their keys."""
        return [
            (key, before)
            for key, before in self.before.items()
            if isinstance(before, ProcedureRecord) and before.step is Step.PRE_STATE and self._crosses(key, before)
        ]

    def _crosses(self, key: bytes, before: ProcedureRecord) -> bool:
        after = self.wrote[key]
        if isinstance(after, ProcedureRecord):
            return after.step is not Step.PRE_STATE
        ending = self.wrote.get(keys.statement(before.statement))
        return not isinstance(ending, StatementRecord) or ending.outcome is not Outcome.ROLLED_BACK


class Elected(msgspec.Struct, frozen=True, kw_only=True):
    """A term began; `newest` is LM at that revision, which must be the first floor of its leader."""

    term: Term
    newest: Revision
    holder: str = ""


class RevisionHistory:
    """Every revision of the watched range, its fold and its lineage."""

    def __init__(self) -> None:
        self.newest = Revision(0)
        """LM: the newest revision of the watched range."""
        self.term = Term(0)
        self.records: dict[bytes, Record] = {}
        """Everything as of `newest`, decoded."""
        self.committed_at_ns: dict[Revision, int] = {}
        self.versions: dict[tuple[ObjectId, SchemaVersion], TableRecord] = {}
        """Each schema of each table, as it was first committed."""
        self.first_seen: dict[bytes, Revision] = {}
        """When each statement's, table's and segment's key was first written."""
        self._fold: Fold = HashTrieMap()
        self._folds: dict[Revision, Fold] = {Revision(0): self._fold}
        self._lineages: dict[Revision, LineageHash] = {Revision(0): GENESIS}

    def take(self, batch: RevisionChanges, real_ns: int) -> Committed | Elected | None:
        """Takes one revision of the store; None if it changes nothing here."""
        changes = [one for one in batch.changes if keys.WATCH_START <= one.key < keys.WATCH_END]
        if not changes:
            return self._leadership(batch)
        assert len(self._folds) <= COMMITS_MAX, "a run this long is not remembered"
        wrote: dict[bytes, Record | None] = {}
        before: dict[bytes, Record] = {}
        claimed = self.lineage
        fold = self._fold
        for change in changes:
            key, value = change.key, change.value
            fold = fold.discard(key) if value is None else fold.insert(key, value)
            if key == keys.LINEAGE:
                claimed = LineageHash(value or b"")
                continue
            old = self.records.pop(key, None)
            if old is not None:
                before[key] = old
            wrote[key] = record = None if value is None else decode_record(Record, value)
            if record is not None:
                self.records[key] = record
                self.first_seen.setdefault(key, batch.revision)
                if isinstance(record, TableRecord):
                    self.versions.setdefault((record.id, record.schema_version), record)
        follows = claimed == next_lineage(self.lineage, changes)
        self.newest, self._fold = batch.revision, fold
        self._folds[batch.revision] = fold
        self._lineages[batch.revision] = claimed
        self.committed_at_ns[batch.revision] = real_ns
        return Committed(
            revision=batch.revision, wrote=wrote, before=before, lineage=claimed, follows=follows, real_ns=real_ns
        )

    def _leadership(self, batch: RevisionChanges) -> Elected | None:
        """Under a lock, the leader record is a key of the store."""
        for change in batch.changes:
            if change.key == keys.LEADER and change.value is not None:
                record = decode_record(LeaderRecord, change.value)
                if record.term > self.term:
                    return self.elect(record)
        return None

    def elect(self, record: LeaderRecord) -> Elected:
        """Takes the beginning of a term."""
        self.term = record.term
        return Elected(term=record.term, newest=self.newest, holder=record.holder)

    # ------------------------------------------------------------ at a revision

    @property
    def lineage(self) -> LineageHash:
        """At the newest revision."""
        return self._lineages[self.newest]

    def lineage_at(self, revision: Revision) -> LineageHash | None:
        """The history hash at a revision; None if no revision of the watched range has that number."""
        return self._lineages.get(revision)

    def fold_at(self, revision: Revision) -> Fold:
        """Every key with its value at a revision of the watched range, the lineage among them."""
        return self._folds[revision]

    def record_at(self, revision: Revision, key: bytes) -> Record | None:
        """One record as it stood at a revision of the watched range."""
        value = self._folds[revision].get(key)
        return None if value is None else decode_record(Record, value)

    def segments_at(self, revision: Revision, table: ObjectId) -> list[SegmentRecord]:
        """The manifest of a table at a revision of the watched range, in the order of keys."""
        prefix = b"%s%010d/" % (keys.SEGMENTS, table)
        found = sorted(key for key in self._folds[revision] if key.startswith(prefix))
        entries = (self.record_at(revision, key) for key in found)
        return [one for one in entries if isinstance(one, SegmentRecord)]

    def at_most(self, revision: Revision) -> Revision:
        """The newest revision of the watched range that is not above `revision`."""
        while revision not in self._folds:
            revision = Revision(revision - 1)
        return revision

    # ------------------------------------------------------------ now

    def settings(self) -> SettingsRecord | None:
        """The cluster's settings, None before it is initialised."""
        found = self.records.get(keys.SETTINGS)
        return found if isinstance(found, SettingsRecord) else None

    def running(self) -> list[ProcedureRecord]:
        """Procedures that have not ended."""
        return [one for one in self.records.values() if isinstance(one, ProcedureRecord)]

    def may_go(
        self, revision: Revision, table: ObjectId, bucket: BucketNumber, segment: SegmentId, node: NodeId
    ) -> bool:
        """Whether the state at a revision lets this node delete this segment file.

        It may once the table is past the point of no return of its drop, or the manifest does not know the segment, no
        write has replaced it and its own write has ended, or the manifest has it and neither the bucket nor the entry
        names this node.
        """
        table_key = keys.table(table)
        if self.first_seen.get(table_key, revision + 1) <= revision and table_key not in self._folds[revision]:
            return True
        entry = self.record_at(revision, keys.segment(table, bucket, segment))
        if isinstance(entry, SegmentRecord):
            place = self.record_at(revision, keys.bucket(table, bucket))
            assigned = isinstance(place, BucketRecord) and node in place.replicas
            return not assigned and node not in entry.holders
        if self.record_at(revision, keys.replaced(table, bucket, segment)) is not None:
            return False  # scans that were planned before go on in it
        return self._ended(revision, segment_transaction(segment))

    def _ended(self, revision: Revision, transaction: TransactionId) -> bool:
        key = keys.transaction(transaction)
        record = self.record_at(revision, key)
        if isinstance(record, TransactionRecord):
            return record.state is not TransactionState.OPEN
        # Purged, so it had ended; or the store has never heard of it, and what was staged under it is nobody's.
        seen = self.first_seen.get(key)
        return seen is None or seen <= revision
