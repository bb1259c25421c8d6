"""What was changed in a table."""

from typing import Annotated

from msgspec import Meta

from leasehold.core.words.messages.base import BaseMessage, ClientRequest
from leasehold.core.words.messages.data import ScanPlan
from leasehold.core.words.records import SegmentRecord
from leasehold.ids import ClusterId, Generation, ObjectId, Revision
from leasehold.limits.statements import COLUMNS_MAX


class PlanChanges(ClientRequest, frozen=True, kw_only=True, tag="plan-changes/1"):
    """Asks which commits changed rows of a table after a revision (`core/data/changes.py`)."""

    cluster_id: ClusterId | None
    name: str
    columns: Annotated[tuple[str, ...], Meta(max_length=COLUMNS_MAX)] | None
    since: Revision
    until: Revision | None = None
    """The last revision whose changes are wanted, by default the newest."""
    table: ObjectId | None = None
    """The table that the reader has followed until `since`; None for one who begins."""
    generation: Generation | None = None
    """That of the cluster, as the reader knows it."""
    ignores_deletes: bool = False
    """Whether rows may have been deleted since, which nobody can read any more."""


class CommitChanges(BaseMessage, frozen=True, kw_only=True, tag="commit-changes/1"):
    """What the commits of one revision changed: rows of `added` that are not in `taken` came, the others of `taken`
    went."""

    revision: Revision
    added: tuple[SegmentRecord, ...]
    taken: tuple[SegmentRecord, ...]
    committed_us: int | None = None
    """The commit time, in microseconds since 1970 UTC; None if it is not kept any more."""


class ChangesPlan(BaseMessage, frozen=True, kw_only=True, tag="changes-plan/1"):
    """What was changed, and from where to read it."""

    plan: ScanPlan
    """Without segments."""
    commits: tuple[CommitChanges, ...]
    """In their order, from the first; not all of them if one message can't hold them."""
    until: Revision
    """All changes up to there are in `commits`."""
