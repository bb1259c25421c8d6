"""What a statement is about to write: the plan of its first transaction, and what the plans of all kinds share."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import records
from leasehold.core.words.codec import encode
from leasehold.core.words.operations import Change
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import NodeId, ObjectId, Revision
from leasehold.limits.statements import DESCRIPTION_BYTES_MAX

T = TypeVar("T")


class ResolvedView(msgspec.Struct, frozen=True, kw_only=True):
    """What the SELECT of a view comes to on a catalog."""

    body: str
    """The SELECT with every name qualified and `*` written out."""
    columns: tuple[records.ViewColumn, ...]
    needs: tuple[records.Need, ...]


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan needs besides the catalog: the leader finds it out before it decides."""

    login: bytes | None = None
    """The hash of the login that asked. The plan looks the user up: a login may end while a statement waits."""
    serving: tuple[NodeId, ...] = ()
    """The nodes that hold a lease: new tables are placed there; a drain names those others that it counts on."""
    leaving: frozenset[NodeId] = frozenset()
    """Those that are about to be removed: new tables are placed on others."""
    alone: Mapping[ObjectId, int] | None = None
    """Of a node that is away: how many segments of which tables no other node holds."""
    wall_us: int = 0
    """Microseconds since 1970 UTC, to say which rows have expired."""
    password_hash: str | None = None
    view: ResolvedView | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the first transaction. What a destructive one `hides` goes, or comes back, with the second."""

    changes: tuple[Change, ...]
    counters: records.CountersRecord
    hides: tuple[records.Hidden, ...] = ()
    notes: tuple[str, ...] = ()
    """What people should know of it besides its outcome, a sentence each."""


def put(key: bytes, record: records.AnyRecord) -> Change:
    return Change(key, encode(record))


def put_bounded(key: bytes, record: records.DatabaseRecord | records.TableRecord | records.ViewRecord) -> Change:
    """The same for what people describe at length; raises `Refused` (TOO_LARGE) where it is too long."""
    change = put(key, record)
    size = len(change.value or b"")
    if size > DESCRIPTION_BYTES_MAX:
        text = f"the description of {record.name} would take {size} bytes, over {DESCRIPTION_BYTES_MAX}"
        raise Refused(text, code=ErrorCode.TOO_LARGE, hint="shorten comments, defaults and properties")
    return change


def next_revision(catalog: Catalog) -> Revision:
    """That of the transaction that is decided on a catalog: a leader is the only one who writes."""
    return Revision(catalog.revision + 1)


def counters(catalog: Catalog) -> records.CountersRecord:
    assert catalog.counters is not None, "the cluster is initialised"
    return catalog.counters


def next_object(catalog: Catalog) -> tuple[ObjectId, records.CountersRecord]:
    """A number for a new object, and the counters after it."""
    now = counters(catalog)
    return now.next_object, msgspec.structs.replace(now, next_object=ObjectId(now.next_object + 1))


def in_turn(
    catalog: Catalog, things: Iterable[T], step: Callable[[T, Catalog], tuple[Change, ...]]
) -> tuple[Change, ...]:
    """The changes of one step for each of `things`, each decided on what those before it left; each key once."""
    merged: dict[bytes, Change] = {}
    for thing in things:
        changes = step(thing, catalog)
        catalog = catalog.changed(changes)
        merged.update((change.key, change) for change in changes)
    return tuple(merged.values())
