"""What an oracle hears of local opens: sub-leases that a reader holds, and files that it opens under them."""

import msgspec

from leasehold.ids import FieldId, ObjectId, Revision


class SubLeased(msgspec.Struct, frozen=True, kw_only=True):
    """A reader holds a sub-lease of a node until `until_ns`, by the clock of their machine."""

    node: str
    until_ns: int
    deadline_ns: int
    """Of the lease under which the node granted it."""
    revision: Revision
    """Of the view on which it was granted."""
    returned: Revision
    """The newest change that had returned when it was granted."""


class LocallyOpened(msgspec.Struct, frozen=True, kw_only=True):
    """A task opens a file of a local open."""

    node: str
    at_ns: int
    deadline_ns: int
    """Of the last lease under which the node granted the open, by the same clock."""
    granted: Revision
    """The view on which the node granted it last."""
    returned: Revision
    """The newest change that has returned."""
    table: ObjectId
    fields: tuple[FieldId, ...]
    deletes: int
    """The newest DELETE of the reader's plan."""
    login: bytes | None = None
