"""Coordinators as people see them: SHOW COORDINATORS."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.questions.certificates import CERTIFICATE_COLUMN, shown_end
from leasehold.core.questions.rows import Row, rows_of
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import CoordinatorRecord
from leasehold.ids import Revision, Term

COLUMNS: Final = (
    "name",
    "address",
    "role",
    "term",
    "applied_revision",
    "lag",
    "store_member",
    "version",
    CERTIFICATE_COLUMN,
)


class KnownCoordinator(NamedTuple):
    """What the leader knows of a coordinator: LEADER, FOLLOWER or SILENT, and how far it has come."""

    record: CoordinatorRecord
    role: str
    term: Term | None
    applied: Revision | None
    member: str
    certificate_ends_s: int | None = None


def coordinators(known: Sequence[KnownCoordinator], catalog: Catalog) -> Rows:
    """The lag is in revisions, by the last report."""
    rows: list[Row] = [
        (
            one.record.name or None,
            one.record.address,
            one.role,
            one.term,
            one.applied,
            None if one.applied is None else max(0, catalog.revision - one.applied),
            one.member or None,
            one.record.version,
            shown_end(one.certificate_ends_s),
        )
        for one in known
    ]
    return rows_of(COLUMNS, rows, catalog)
