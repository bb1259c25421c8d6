"""Local opens: a reader that sees a node's file system gets links to segment files (`core/local`)."""

from typing import Annotated

from msgspec import Meta

from leasehold.core.words.messages.base import BaseMessage, Failure, Through, Word
from leasehold.core.words.messages.data import Cutoff
from leasehold.core.words.records import Field
from leasehold.ids import BucketNumber, ClusterId, Generation, NodeLogin, ObjectId, Revision, SegmentId
from leasehold.limits.local import LOCAL_GROUPS_MAX
from leasehold.limits.messages import ASKED_MAX
from leasehold.limits.statements import COLUMNS_MAX


class AskLocalProof(BaseMessage, frozen=True, kw_only=True, tag="ask-local-proof/1"):
    """Asks for the path of a file whose bytes prove that the reader sees the node's file system."""

    cluster_id: Annotated[ClusterId, Word]
    login: Annotated[NodeLogin, Word] | None = None
    revision: Revision = Revision(0)
    """The node must show it before it answers: a login may be newer than what it shows."""


class LocalProof(BaseMessage, frozen=True, kw_only=True, tag="local-proof/1"):
    """Where the file is."""

    path: str


class LocalSegment(BaseMessage, frozen=True, kw_only=True, tag="local-segment/1"):
    """A segment, as the manifest has it."""

    bucket: BucketNumber
    segment: Annotated[SegmentId, Word]
    sha256: bytes


class OpenLocal(BaseMessage, frozen=True, kw_only=True, tag="open-local/1"):
    """Asks for links to segments of one plan, in a folder for each group. `proof` is what the file of `LocalProof`
    holds. The reader draws `request`, which names the open from then on; it is a secret of the reader and the node.

    `fields` are all columns that the reader may look at. The other fields are as in `ReadTicket`.
    """

    cluster_id: Annotated[ClusterId, Word]
    request: Annotated[str, Word]
    proof: bytes
    table: ObjectId
    fields: Annotated[tuple[Field, ...], Meta(max_length=COLUMNS_MAX)]
    groups: Annotated[tuple[tuple[LocalSegment, ...], ...], Meta(max_length=LOCAL_GROUPS_MAX)]
    revision: Revision
    cutoff: Cutoff
    generation: Generation
    through: Through = ()
    login: Annotated[NodeLogin, Word] | None = None


class LocalOpened(BaseMessage, frozen=True, kw_only=True, tag="local-opened/1"):
    """The links are in `folder`, those of group 0 in its folder `0`, each named `SEGMENT.parquet`."""

    folder: str
    revision: Revision
    """Of the view on which this was granted."""
    remaining_ns: int
    """What is left of the node's lease."""
    missing: tuple[SegmentId, ...] = ()
    """Segments that the node can't hand out as files."""


class RenewLocal(BaseMessage, frozen=True, kw_only=True, tag="renew-local/1"):
    """Renews the sub-leases of these opens, or with `releases` ends them."""

    cluster_id: Annotated[ClusterId, Word]
    requests: Annotated[tuple[Annotated[str, Word], ...], Meta(max_length=ASKED_MAX)]
    releases: bool = False
    login: Annotated[NodeLogin, Word] | None = None


class LocalEnd(BaseMessage, frozen=True, kw_only=True, tag="local-end/1"):
    """An open that has ended."""

    request: str
    why: Failure


class LocalRenewed(BaseMessage, frozen=True, kw_only=True, tag="local-renewed/1"):
    """All opens that were asked for last `remaining_ns` from now on, except for those that have `ended`."""

    remaining_ns: int
    ended: tuple[LocalEnd, ...] = ()
