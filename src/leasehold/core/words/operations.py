"""The words of the meta storage: changes, compares, transactions, revisions (docs/design.md, "Meta storage")."""

from typing import TypeAlias

import msgspec

from leasehold.ids import LineageHash, Revision, Term


class Change(msgspec.Struct, frozen=True, gc=False):
    """One key set to `value`, or deleted where `value` is None."""

    key: bytes
    value: bytes | None


class RevisionChanges(msgspec.Struct, frozen=True):
    """A whole revision as a watch delivers it: each key at most once, in key order."""

    revision: Revision
    changes: tuple[Change, ...]


class Exists(msgspec.Struct, frozen=True, tag=True):
    """Holds if the key is there."""

    key: bytes


class Missing(msgspec.Struct, frozen=True, tag=True):
    """Holds if the key is not there."""

    key: bytes


class ValueIs(msgspec.Struct, frozen=True, tag=True):
    """Holds if the key is there with exactly this value."""

    key: bytes
    value: bytes


class ModifiedAt(msgspec.Struct, frozen=True, tag=True):
    """Holds if the key was last written at this revision."""

    key: bytes
    revision: Revision


class LedBy(msgspec.Struct, frozen=True, tag=True):
    """Holds until another term begins."""

    term: Term


Compare: TypeAlias = Exists | Missing | ValueIs | ModifiedAt | LedBy


class Txn(msgspec.Struct, frozen=True, kw_only=True):
    """If all compares hold, `then`, else `otherwise`: atomic, one revision, each key at most once in a branch.

    A delete of a key that is not there changes nothing and is not seen by watches. A branch that changes
    nothing takes no revision.
    """

    compares: tuple[Compare, ...] = ()
    then: tuple[Change, ...] = ()
    otherwise: tuple[Change, ...] = ()


class TxnResult(msgspec.Struct, frozen=True, kw_only=True):
    """Which branch ran, and the store's revision after it."""

    succeeded: bool
    revision: Revision


class KeyValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A key as it stands at the revision that was read."""

    key: bytes
    value: bytes
    created: Revision
    modified: Revision
    version: int
    """How often it was written since it was created, from 1."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a range, in key order; read on from `next_start` at `revision`, None at the end."""

    revision: Revision
    items: tuple[KeyValue, ...]
    next_start: bytes | None


class StoredProjection(msgspec.Struct, frozen=True, kw_only=True):
    """What a vault holds of the meta storage; applied 0 with the genesis hash on a new one."""

    applied: Revision
    lineage: LineageHash
    items: tuple[Change, ...]
    """Every key with its value, in key order."""
