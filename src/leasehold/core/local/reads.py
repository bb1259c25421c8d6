"""The steps by which a node hands out links, renews and takes back: what a Flight action of a reader runs.

| step of an open                                   | if it fails                          |
| ------------------------------------------------- | ------------------------------------ |
| guard, authorise each segment, as a scan does     | refused, nothing was made            |
| hold each file against its hash, once per process | the segment is left out              |
| note the open, then make its links                | they are removed                     |
| guard again, authorise on that view               | they are removed, nothing is granted |
| log a serve record, answer                        | they are removed                     |

The open is noted before its second guard. So a view that is published before the note is the view of that guard, or an
older one; and a view that is published after it ends the open (`viewed`), before the node reports the view.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

from leasehold.core.access.rights import asker_of
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.data.read_access import authorise, check_sound
from leasehold.core.data.requests import Requests, Slots, check_cluster
from leasehold.core.data.scans import Scans
from leasehold.core.data.segment_files import file_of
from leasehold.core.local.links import LinksFiles
from leasehold.core.local.opens import LocalOpens
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.core.words.messages import (
    AskLocalProof,
    Failure,
    LocalEnd,
    LocalOpened,
    LocalProof,
    LocalRenewed,
    LocalSegment,
    OpenLocal,
    ReadTicket,
    RenewLocal,
)
from leasehold.core.words.records import SegmentFormat, TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Definite, LeaseholdError, NotFound, Refused
from leasehold.ids import BucketNumber, NodeLogin, ObjectId, is_hex_128
from leasehold.limits.local import LOCAL_GROUPS_MAX, LOCAL_MAKING_MAX, LOCAL_OPENS_MAX, LOCAL_SEGMENTS_MAX

_NOWHERE = ObjectId(0), BucketNumber(0)


class LocalReads:
    """Serves local opens; `scans` shares which files were held against their hash."""

    def __init__(self, requests: Requests, scans: Scans[Any], links: LinksFiles) -> None:
        self._requests = requests
        self._serving = requests.serving
        self._scans = scans
        self._links = links
        self._lock = requests.runtime.condition()
        self._opens = LocalOpens()
        self._making = Slots(requests.runtime, "local opens under way", LOCAL_MAKING_MAX)

    def viewed(self, view: Catalog) -> None:
        """Takes away what a view forbids; called once it is published and before it is reported. Raises `Definite`
        (DISK_ERROR): then it must not be reported."""
        self._take_away(lambda: self._opens.viewed(view))

    def end_all(self) -> None:
        """Takes all links away; called once the lease was given back, before anybody is told. Errors as of `viewed`."""
        self._take_away(self._opens.end_all)

    async def sweep(self) -> None:
        """Removes the links whose sub-lease has ended."""
        now_ns = self._requests.runtime.now_ns()
        self._take_away(lambda: self._opens.time_passed(now_ns))
        await self._links.delete()

    async def prove(self, request: AskLocalProof) -> LocalProof:
        """Where the proof is. Reading it needs the rights of the node's own user. Raises `Fenced`, `Unauthenticated` if
        the caller is no user, and as `until_shown`."""
        check_cluster(self._serving, request.cluster_id)
        await self._requests.until_shown(request.revision, _NOWHERE, login=request.login)
        _user(request.login, self._requests.guarded(_NOWHERE).view)
        return LocalProof(path=self._links.prove())

    async def open(self, request: OpenLocal) -> LocalOpened:
        """Raises what stands against it, and `Refused` with code NOT_LOCAL, BUSY, BAD_TICKET."""
        check_cluster(self._serving, request.cluster_id)
        check_asked(request)
        if not self._links.is_proof(request.proof):
            raise not_local("the proof is not what this node wrote")
        with self._making.one():
            kept, missing = await self._authorised(request)
            user = _user(request.login, self._requests.guarded(_NOWHERE).view)
            with self._lock:
                self._opens.begin(request, user)
            try:
                return await self._made(request, user, kept, missing)
            except Exception as error:
                ours = error if isinstance(error, LeaseholdError) else not_local("the links were not made")
                self._take_away(lambda: self._opens.end(request.request, ours))
                self._links.take_away(request.request)  # it may have ended before its folder was made
                raise

    async def renew(self, request: RenewLocal) -> LocalRenewed:
        """Raises `Fenced`; of each open that has ended the answer says why."""
        check_cluster(self._serving, request.cluster_id)
        if len(request.requests) > LOCAL_OPENS_MAX:
            raise _bad("it names too many opens")
        if request.releases:
            for one in request.requests:
                self._take_away(lambda one=one: self._opens.release(one, request.login))
            await self._links.delete()
            return LocalRenewed(remaining_ns=0)
        passed = self._requests.guarded(_NOWHERE)
        user = _user(request.login, passed.view)
        ended: list[LocalEnd] = []
        for one in request.requests:
            try:
                with self._lock:
                    self._opens.extend(one, request.login, user, passed)
            except LeaseholdError as error:
                ended.append(LocalEnd(request=one, why=_failure(error)))
        self._take_away(lambda: None)
        return LocalRenewed(remaining_ns=passed.lease.deadline_ns - passed.released_ns, ended=tuple(ended))

    async def _authorised(self, request: OpenLocal) -> tuple[list[list[ReadTicket]], list[ReadTicket]]:
        """The segments that the node can hand out, by group, and those that it can't."""
        first = next(iter(_tickets(request.groups[0], request)))
        bucket = first.table, first.bucket
        await self._requests.until_shown(request.revision, bucket, request.generation, login=request.login)
        kept: list[list[ReadTicket]] = []
        missing: list[ReadTicket] = []
        table: TableRecord | None = None
        for group in request.groups:
            kept.append([])
            for ticket in _tickets(group, request):
                passed, entry = await self._scans.looking(ticket).passed()
                table = authorise(ticket, passed.view, entry, table)
                assert entry is not None, "the ticket was authorised"
                is_whole = entry.format is SegmentFormat.FIELD_IDS and await self._is_whole(ticket)
                (kept[-1] if is_whole else missing).append(ticket)
        return kept, missing

    async def _is_whole(self, ticket: ReadTicket) -> bool:
        try:
            await self._scans.verify(ticket)
        except Corrupt:
            self._scans.suspect(ticket)
            return False
        except (Refused, NotFound):
            return False
        return True

    async def _made(
        self, request: OpenLocal, user: str, kept: list[list[ReadTicket]], missing: list[ReadTicket]
    ) -> LocalOpened:
        files: list[list[OnDisk]] = [[file_of(one) for one in group] for group in kept]
        try:
            folder = await self._links.link(request.request, files)
        except Definite:
            with self._lock:
                self._opens.check_open(request.request)  # else it was taken away meanwhile
            raise
        passed = self._requests.guarded(_NOWHERE)
        with self._lock:
            remaining_ns = self._opens.extend(request.request, request.login, user, passed)
        released = next(chain.from_iterable(kept), None)
        if released is not None:  # what is logged is the same for all of an open
            self._scans.log(released, passed)
        return LocalOpened(
            folder=folder,
            revision=passed.view.revision,
            remaining_ns=remaining_ns,
            missing=tuple(one.segment for one in missing),
        )

    def _take_away(self, decide: Callable[[], None]) -> None:
        """Decides what has ended, and takes away the links of all that has. They are forgotten only when they are gone:
        so of two threads neither goes on before."""
        with self._lock:
            decide()
            ending = self._opens.to_remove()
        for one in ending:
            self._links.take_away(one)
        with self._lock:
            for one in ending:
                self._opens.removed(one)


def check_asked(request: OpenLocal) -> None:
    """Raises `Refused` with code BAD_TICKET for values out of their bounds."""
    segments = [one for group in request.groups for one in group]
    if not is_hex_128(request.request):
        raise _bad("the id of an open is 128 bits in hex")
    if not segments or not all(request.groups):
        raise _bad("a group names no segment")
    if len(segments) > LOCAL_SEGMENTS_MAX or len(request.groups) > LOCAL_GROUPS_MAX:
        raise _bad(f"{len(segments)} segments in {len(request.groups)} groups")
    if len({one.segment for one in segments}) < len(segments):
        raise _bad("a segment is named twice")
    check_sound(next(iter(_tickets(request.groups[0], request))))


def not_local(why: str) -> Refused:
    """The error of a node that can't hand out its files to this reader."""
    return Refused(
        f"the files of this node can't be opened from there: {why}",
        code=ErrorCode.NOT_LOCAL,
        hint="the rows can be read over Flight",
    )


def _tickets(group: tuple[LocalSegment, ...], request: OpenLocal) -> list[ReadTicket]:
    """The scans that an open stands for."""
    return [
        ReadTicket(
            cluster_id=request.cluster_id,
            request=request.request,
            table=request.table,
            bucket=one.bucket,
            segment=one.segment,
            sha256=one.sha256,
            row_offset=0,
            fields=request.fields,
            revision=request.revision,
            through=request.through,
            login=request.login,
            generation=request.generation,
            cutoff=request.cutoff,
        )
        for one in group
    ]


def _user(login: NodeLogin | None, view: Catalog) -> str:
    asker = asker_of(login, view)
    return "" if asker is None else asker.user.name


def _failure(error: LeaseholdError) -> Failure:
    return Failure(code=error.code, text=error.text, hint=error.hint, definite=isinstance(error, Definite))


def _bad(what: str) -> Refused:
    return Refused(f"a local open is not sound: {what}", code=ErrorCode.BAD_TICKET, hint="upgrade the client")
