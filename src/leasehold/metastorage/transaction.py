"""The meaning of a transaction, the same for every backend: its bounds, its compares, what it writes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.operations import (
    Change,
    Compare,
    Exists,
    KeyValue,
    LedBy,
    Missing,
    ModifiedAt,
    RevisionChanges,
    Txn,
    TxnResult,
    ValueIs,
)
from leasehold.core.words.records import ClusterRecord, LeaderRecord, LogTransaction
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import FIRST_GENERATION, ClusterId, Generation, Revision, Term
from leasehold.limits.messages import KEY_BYTES_MAX, VALUE_BYTES_MAX
from leasehold.limits.metastorage import (
    CHANGE_FRAMING_BYTES,
    RANGE_PAGE_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
)
from leasehold.metastorage.contract import Compacted, FutureRevision, LeadershipLost


class TransactionDraft(NamedTuple):
    """What transactions would answer, and what those that change something would change."""

    results: list[TxnResult]
    transactions: tuple[LogTransaction, ...]


Writes: TypeAlias = dict[bytes, KeyValue | None]
"""The keys that a transaction changes, in order, as it leaves them; None for a key that it deletes."""


def check_txn(txn: Txn) -> None:
    """Raises `Refused` for a transaction out of bounds, or one that names a key twice in a branch."""
    if len(txn.compares) > TRANSACTION_OPERATIONS_MAX:
        raise _too_large(f"{len(txn.compares)} compares in a transaction, over {TRANSACTION_OPERATIONS_MAX}")
    for compare in txn.compares:
        if not isinstance(compare, LedBy):
            check_key(compare.key)
        if isinstance(compare, ValueIs):
            _check_value(compare.value)
    _check_branch(txn.then)
    _check_branch(txn.otherwise)


def check_key(key: bytes) -> None:
    """Raises `Refused` unless the key has 1 to `KEY_BYTES_MAX` bytes."""
    if not key:
        raise Refused("an empty key", code=ErrorCode.BAD_KEY, hint="name the key")
    if len(key) > KEY_BYTES_MAX:
        raise _too_large(f"a key of {len(key)} bytes, over {KEY_BYTES_MAX}")


def check_span(start: bytes, end: bytes) -> None:
    """Raises `Refused` for ends of a range that are longer than any key and any `next_start`."""
    if max(len(start), len(end)) > KEY_BYTES_MAX + 1:
        raise _too_large(f"a range with an end of more than {KEY_BYTES_MAX + 1} bytes")


def check_limit(limit: int) -> int:
    """The size of a page: `limit` cut to `RANGE_PAGE_MAX`. Raises `Refused` below 1."""
    if limit < 1:
        raise Refused(f"a page of {limit} keys is too small", code=ErrorCode.BAD_LIMIT, hint="ask for at least one key")
    return min(limit, RANGE_PAGE_MAX)


def readable(revision: Revision | None, minimum: Revision, newest: Revision) -> Revision:
    """The revision to read, `newest` for None. Raises `Compacted` or `FutureRevision`."""
    if revision is None:
        return newest
    if revision < minimum:
        raise Compacted(minimum)
    if revision > newest:
        raise FutureRevision(f"revision {revision} does not exist yet: the newest is {newest}")
    return revision


def evaluate(
    txn: Txn, latest: Callable[[bytes], KeyValue | None], revision: Revision, term: Term
) -> tuple[bool, Writes]:
    """Which branch runs, and what it writes at `revision`. `latest` answers the key as it stands now, None where it is
    missing; `term` is the newest one."""
    succeeded = all(_holds(compare, latest, term) for compare in txn.compares)
    writes: Writes = {}
    for change in sorted(txn.then if succeeded else txn.otherwise, key=lambda change: change.key):
        standing = latest(change.key)
        if change.value is not None or standing is not None:
            writes[change.key] = _written(change, standing, revision)
    return succeeded, writes


def decide(
    txns: Sequence[Txn], latest: Callable[[bytes], KeyValue | None], newest: Revision, term: Term
) -> TransactionDraft:
    """Evaluates transactions one on the other, on a store that stands at `newest`."""
    overlay: Writes = {}
    results: list[TxnResult] = []
    transactions: list[LogTransaction] = []

    def standing(key: bytes) -> KeyValue | None:
        return overlay[key] if key in overlay else latest(key)

    for txn in txns:
        succeeded, writes = evaluate(txn, standing, Revision(newest + 1), term)
        if writes:
            newest = Revision(newest + 1)
            overlay |= writes
            transactions.append(LogTransaction(newest, as_revision(newest, writes).changes))
        results.append(TxnResult(succeeded=succeeded, revision=newest))
    return TransactionDraft(results, tuple(transactions))


def written(logged: LogTransaction, latest: Callable[[bytes], KeyValue | None]) -> Writes:
    """What a decided transaction writes. `latest` answers a key as it stands before."""
    return {change.key: _written(change, latest(change.key), logged.revision) for change in logged.changes}


def bytes_of(txn: Txn) -> int:
    """What its larger branch counts for, as in `check_txn`."""
    return max(map(bytes_of_changes, (txn.then, txn.otherwise)))


def bytes_of_changes(changes: tuple[Change, ...]) -> int:
    """The size of changes, as the meta storage counts it."""
    return sum(len(one.key) + CHANGE_FRAMING_BYTES + len(one.value or b"") for one in changes)


def check_fence(fence: tuple[Compare, ...], term: Term) -> None:
    """Raises `LeadershipLost` once another term than the fence's has begun."""
    if any(isinstance(one, LedBy) and one.term != term for one in fence):
        raise LeadershipLost(f"term {term} has begun", hint="another coordinator leads")


def as_revision(revision: Revision, writes: Writes) -> RevisionChanges:
    changes = (Change(key, None if entry is None else entry.value) for key, entry in writes.items())
    return RevisionChanges(revision, tuple(changes))


def cluster_id(cluster: KeyValue | None) -> ClusterId | None:
    """The id in the record at `keys.CLUSTER`. Raises `Corrupt`."""
    return None if cluster is None else decode_record(ClusterRecord, cluster.value).cluster_id


def term_of(leader: KeyValue | None) -> Term:
    """The term in the record at `keys.LEADER`, 0 before the first. Raises `Corrupt`."""
    return Term(0) if leader is None else decode_record(LeaderRecord, leader.value).term


def generation_of(cluster: KeyValue | None) -> Generation:
    """The generation in the record at `keys.CLUSTER`, that of a new cluster where there is none. Raises `Corrupt`."""
    return FIRST_GENERATION if cluster is None else decode_record(ClusterRecord, cluster.value).generation


def election(leader: KeyValue | None, cluster: KeyValue | None, candidate: str) -> tuple[LeaderRecord, Txn]:
    """The next leader record, and the transaction that writes it, under a lock that proves the end of the last term. So
    the record's duration is 0: nobody waits for its end. Raises `Corrupt`."""
    record = LeaderRecord(
        generation=generation_of(cluster),
        term=Term(term_of(leader) + 1),
        holder=candidate,
        beat=0,
        duration_ns=0,
    )
    unchanged = Missing(keys.LEADER) if leader is None else ModifiedAt(keys.LEADER, leader.modified)
    return record, Txn(compares=(unchanged,), then=(Change(keys.LEADER, encode(record)),))


def _holds(compare: Compare, latest: Callable[[bytes], KeyValue | None], term: Term) -> bool:
    match compare:
        case Exists(key=key):
            return latest(key) is not None
        case Missing(key=key):
            return latest(key) is None
        case ValueIs(key=key, value=value):
            standing = latest(key)
            return standing is not None and standing.value == value
        case ModifiedAt(key=key, revision=revision):
            # As in etcd, a missing key was last written at 0.
            standing = latest(key)
            return (0 if standing is None else standing.modified) == revision
        case LedBy():
            return compare.term == term
        case _:
            assert_never(compare)


def _written(change: Change, standing: KeyValue | None, revision: Revision) -> KeyValue | None:
    if change.value is None:
        return None
    created, version = (revision, 1) if standing is None else (standing.created, standing.version + 1)
    return KeyValue(key=change.key, value=change.value, created=created, modified=revision, version=version)


def _check_branch(branch: tuple[Change, ...]) -> None:
    if len(branch) > TRANSACTION_OPERATIONS_MAX:
        raise _too_large(f"{len(branch)} changes in a transaction, over {TRANSACTION_OPERATIONS_MAX}")
    for change in branch:
        check_key(change.key)
        if change.value is not None:
            _check_value(change.value)
    size = bytes_of_changes(branch)
    if size > TRANSACTION_BYTES_MAX:
        raise _too_large(f"a transaction of {size} bytes, over {TRANSACTION_BYTES_MAX}")
    if len({change.key for change in branch}) < len(branch):
        raise Refused(
            "a transaction changes a key twice",
            code=ErrorCode.DUPLICATE_KEY,
            hint="keep one change for each key of a branch",
        )


def _check_value(value: bytes) -> None:
    if len(value) > VALUE_BYTES_MAX:
        raise _too_large(f"a value of {len(value)} bytes, over {VALUE_BYTES_MAX}")


def _too_large(text: str) -> Refused:
    return Refused(text, code=ErrorCode.TOO_LARGE, hint="split it into smaller parts")
