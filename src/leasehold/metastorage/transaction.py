"""What a transaction means, apart from where it is stored: its bounds, its compares, what it writes.

Every backend refuses the same requests and computes the same `created`, `modified` and `version`.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

import msgspec

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record, encode
from leasehold.core.words.operations import (
    Change,
    Compare,
    Exists,
    KeyValue,
    Missing,
    ModifiedAt,
    RevisionChanges,
    Txn,
    ValueIs,
)
from leasehold.core.words.records import ClusterRecord, LeaderRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ClusterId, Generation, Revision, Term
from leasehold.limits.messages import KEY_BYTES_MAX, VALUE_BYTES_MAX
from leasehold.limits.metastorage import (
    CHANGE_FRAMING_BYTES,
    RANGE_PAGE_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
)
from leasehold.metastorage.contract import Compacted, FutureRevision


class Put(msgspec.Struct, frozen=True):
    """A key that takes a new value."""

    entry: KeyValue


class Delete(msgspec.Struct, frozen=True):
    """A key that was there and goes."""

    key: bytes


Write: TypeAlias = Put | Delete


def check_txn(txn: Txn) -> None:
    """Raises `Refused` for a transaction out of bounds, or one that names a key twice in a branch."""
    if len(txn.compares) > TRANSACTION_OPERATIONS_MAX:
        raise _too_large(f"{len(txn.compares)} compares in a transaction, over {TRANSACTION_OPERATIONS_MAX}")
    for compare in txn.compares:
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
    """Raises `Refused` for ends of a range that no key and no `next_start` can have."""
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
    txn: Txn, latest: Callable[[bytes], KeyValue | None], revision: Revision
) -> tuple[bool, tuple[Write, ...]]:
    """Which branch runs, and what it writes at `revision`, in key order; nothing is written where this is empty.

    `latest` answers the key as it stands now, None where it is missing.
    """
    succeeded = all(_holds(compare, latest(compare.key)) for compare in txn.compares)
    branch = txn.then if succeeded else txn.otherwise
    writes: list[Write] = []
    for change in sorted(branch, key=_key):
        standing = latest(change.key)
        if change.value is not None:
            writes.append(Put(_next_version(standing, change.key, change.value, revision)))
        elif standing is not None:
            writes.append(Delete(change.key))
    return succeeded, tuple(writes)


def as_revision(revision: Revision, writes: Sequence[Write]) -> RevisionChanges:
    """The writes of one transaction as a watch delivers them."""
    return RevisionChanges(
        revision,
        tuple(
            Change(write.entry.key, write.entry.value) if isinstance(write, Put) else Change(write.key, None)
            for write in writes
        ),
    )


def cluster_id(cluster: KeyValue | None) -> ClusterId | None:
    """The id in the record at `keys.CLUSTER`. Raises `Corrupt`."""
    return None if cluster is None else decode_record(ClusterRecord, cluster.value).cluster_id


def election(leader: KeyValue | None, cluster: KeyValue | None, candidate: str) -> tuple[Term, Txn]:
    """The next term, and the transaction that begins it, under a lock that proves the last one over.

    The record's duration is 0: nobody has to wait it out. Raises `Corrupt`.
    """
    previous = Term(0) if leader is None else decode_record(LeaderRecord, leader.value).term
    term = Term(previous + 1)
    record = LeaderRecord(
        generation=Generation(1) if cluster is None else decode_record(ClusterRecord, cluster.value).generation,
        term=term,
        holder=candidate,
        beat=0,
        duration_ns=0,
    )
    unchanged = Missing(keys.LEADER) if leader is None else ModifiedAt(keys.LEADER, leader.modified)
    return term, Txn(compares=(unchanged,), then=(Change(keys.LEADER, encode(record)),))


def _key(change: Change) -> bytes:
    return change.key


def _holds(compare: Compare, standing: KeyValue | None) -> bool:
    match compare:
        case Exists():
            return standing is not None
        case Missing():
            return standing is None
        case ValueIs(value=value):
            return standing is not None and standing.value == value
        case ModifiedAt(revision=revision):
            # As in etcd, a key that is not there was last written at 0.
            return (0 if standing is None else standing.modified) == revision
        case _:
            assert_never(compare)


def _next_version(standing: KeyValue | None, key: bytes, value: bytes, revision: Revision) -> KeyValue:
    if standing is None:
        return KeyValue(key=key, value=value, created=revision, modified=revision, version=1)
    return KeyValue(key=key, value=value, created=standing.created, modified=revision, version=standing.version + 1)


def _check_branch(branch: tuple[Change, ...]) -> None:
    if len(branch) > TRANSACTION_OPERATIONS_MAX:
        raise _too_large(f"{len(branch)} changes in a transaction, over {TRANSACTION_OPERATIONS_MAX}")
    size = 0
    for change in branch:
        check_key(change.key)
        size += len(change.key) + CHANGE_FRAMING_BYTES
        if change.value is not None:
            _check_value(change.value)
            size += len(change.value)
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
