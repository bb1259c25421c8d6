"""Local opens of this process: folders with links to segment files, each under a sub-lease (`core/local`).

One daemon thread renews all of them. It removes a folder ahead of its deadline, when its node says that it has ended,
when it is closed, and at the end of the process. Then nobody opens a file there any more; a file that is open can be
read to its end.
"""

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from leasehold.client.local_calls import LocalNode
from leasehold.client.threads import THREADS, blocking
from leasehold.core.data.filters import columns_of
from leasehold.core.data.places import AWAY
from leasehold.core.data.reader import FINAL
from leasehold.core.local.sub_lease import SubLease, sent_and_answer
from leasehold.core.words.messages import LocalOpened, LocalSegment, OpenLocal, Place, ScanPlan
from leasehold.core.words.records import SegmentFormat, SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, LeaseholdError, Refused, Unreachable
from leasehold.ids import NodeId, NodeLogin, Revision, SegmentId
from leasehold.limits.flight import FLIGHT_CLIENTS_MAX
from leasehold.limits.local import (
    LOCAL_CALL_MIN_NS,
    LOCAL_ELSEWHERE_NS,
    LOCAL_OPEN_CALL_NS,
    LOCAL_RENEW_CALL_NS,
    LOCAL_SEGMENTS_MAX,
)
from leasehold.limits.units import SECOND_NS
from leasehold.storage.local_links import delete, take_away
from leasehold.wire.entropy import SystemEntropy
from leasehold.wire.failures import from_failure
from leasehold.wire.steps import run
from leasehold.wire.tls import TlsSource


class LocalOpen:
    """Files of one plan that can be opened until it `ended`; any thread may use it."""

    def __init__(self) -> None:
        self.folders: tuple[tuple[Path, ...], ...] = ()
        """By group, in the order in which they were asked for: the folders with its files, one of each node."""
        self.left_out: Mapping[SegmentId, LeaseholdError] = {}
        """The segments that are in no folder, each with the reason."""
        self.ended: LeaseholdError | None = None
        """Why its folders are being removed, or are gone; None while it lasts. Its node may have ended it up to
        LOCAL_RENEW_NS ago: see `check`."""
        self._parts: list[_Part] = []

    def check(self) -> LeaseholdError | None:
        """Asks the nodes now, and looks for the folders; as `ended`."""
        if self.ended is None:
            _keeper.renew(tuple(self._parts))
        gone = next((one for one in self._parts if not one.folder.is_dir()), None)
        if self.ended is None and gone is not None:  # a node may be back at another address
            why = f"node {gone.node.name} has started anew"
            self.end(Refused(why, code=ErrorCode.LOCAL_ENDED, hint="make the frame again"))
        return self.ended

    def close(self, why: str = "it was closed") -> None:
        """Removes the folders. Idempotent."""
        self.end(Refused(why, code=ErrorCode.LOCAL_ENDED, hint="make the frame again"))

    def end(self, why: LeaseholdError) -> None:
        """Removes the folders, since `why`."""
        if self.ended is None:
            self.ended = why
            _keeper.remove(tuple(self._parts))

    def add(self, part: "_Part") -> None:
        self._parts.append(part)
        _keeper.add(part)
        if self.ended is not None:  # another part has ended meanwhile
            _keeper.remove((part,))


class _Part:
    """What one node has opened at a time."""

    def __init__(self, owner: LocalOpen, node: LocalNode, request: str, folder: Path, sub_lease: SubLease) -> None:
        self.owner = owner
        self.node = node
        self.request = request
        self.folder = folder
        self.sub_lease = sub_lease
        self.why: LeaseholdError = Refused("its node has not renewed it in time", code=ErrorCode.LOCAL_ENDED)
        """Why it ends, if it is not renewed."""


class _Keeper:
    """Renews the parts of this process, and removes those that have ended."""

    def __init__(self) -> None:
        self._changed = THREADS.condition()
        self._parts: dict[str, _Part] = {}
        self._released: list[_Part] = []
        self._pid = 0
        self._thread: threading.Thread | None = None
        self._is_ending = False

    def add(self, part: _Part) -> None:
        with self._changed:
            if self._pid != os.getpid():  # a forked child has no thread, and the folders are its parent's
                self._pid = os.getpid()
                self._parts.clear()
                atexit.register(self._end_all)
                self._thread = threading.Thread(target=self._run, name="leasehold-local", daemon=True)
                self._thread.start()
            self._parts[part.request] = part
            self._changed.notify_all()

    def remove(self, parts: Sequence[_Part]) -> None:
        """Takes their folders away at once; their nodes hear of it later."""
        with self._changed:
            if self._pid != os.getpid():
                return
            mine = [one for one in parts if self._parts.pop(one.request, None) is not None]
        for one in mine:
            with suppress(LeaseholdError):  # the disk fails: so it does for the node, which takes it away too
                take_away(one.folder)
        for root in {one.folder.parent for one in mine}:
            delete(root)
        with self._changed:
            self._released += mine
            self._changed.notify_all()

    def renew(self, parts: Sequence[_Part]) -> None:
        """Renews these parts now; ends what can't be renewed any more."""
        by_node: dict[LocalNode, list[_Part]] = {}
        for one in parts:
            by_node.setdefault(one.node, []).append(one)
        for node, of_node in by_node.items():
            self._renew(node, of_node)

    def _renew(self, node: LocalNode, parts: list[_Part]) -> None:
        for one in parts:
            one.sub_lease.asked(THREADS.now_ns())
        try:
            requests, timeout_ns = tuple(one.request for one in parts), self._call_ns()
            call = blocking(lambda: node.renew(requests, releases=False, timeout_ns=timeout_ns))
            sent_ns, answer = run(sent_and_answer(call, THREADS.now_ns))
        except LeaseholdError as error:
            for one in parts:
                one.why = error
                has_surrendered = error.code == ErrorCode.FENCED and not one.folder.is_dir()
                if error.code not in AWAY or has_surrendered:
                    one.owner.end(error)
            return
        ended = {one.request: one.why for one in answer.ended}
        for one in parts:
            if one.request in ended:
                one.owner.end(from_failure(ended[one.request]))
            else:
                one.sub_lease.renewed(sent_ns=sent_ns, remaining_ns=answer.remaining_ns)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_ending:
                    return
                now_ns = THREADS.now_ns()
                parts, released = tuple(self._parts.values()), self._released
                self._released = []
                due_ns = min((min(one.sub_lease.due_ns, one.sub_lease.over_ns) for one in parts), default=None)
                if not released and (due_ns is None or due_ns > now_ns):
                    run(self._changed.wait(due_ns))
                    continue
            for one in parts:
                if one.sub_lease.over_ns <= now_ns:
                    one.owner.end(one.why)
            due = [one for one in parts if one.sub_lease.due_ns <= now_ns and one.owner.ended is None]
            if due:
                # One node: it may take its whole time, and another part may be over by then.
                self._renew(due[0].node, [one for one in due if one.node == due[0].node])
            self._tell(released)

    def _tell(self, released: list[_Part]) -> None:
        for node in {one.node for one in released}:
            with suppress(LeaseholdError):  # its node removes it with the end of its sub-lease
                requests = tuple(one.request for one in released if one.node == node)
                node.renew(requests, releases=True, timeout_ns=self._call_ns())

    def _call_ns(self) -> int:
        """How long a call may take, so that no part is over before it ends."""
        over_ns = min((one.sub_lease.over_ns for one in tuple(self._parts.values())), default=None)
        left_ns = LOCAL_RENEW_CALL_NS if over_ns is None else over_ns - THREADS.now_ns()
        return max(LOCAL_CALL_MIN_NS, min(left_ns, LOCAL_RENEW_CALL_NS))

    def _end_all(self) -> None:
        if self._pid != os.getpid():
            return
        for one in {part.owner for part in tuple(self._parts.values())}:
            one.close()
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        if self._thread is not None:
            # A thread that comes back from gRPC while the interpreter ends would abort the process.
            self._thread.join(2 * LOCAL_RENEW_CALL_NS / SECOND_NS)


_keeper: Final = _Keeper()
_elsewhere: Final[dict[str, int]] = {}
"""Until when a node at an address counts as one of another machine."""
_ELSEWHERE: Final = {ErrorCode.NOT_LOCAL, ErrorCode.NO_LINKS, ErrorCode.UNREACHABLE, ErrorCode.TIMED_OUT}
"""What makes it count so."""


def open_locally(
    plan: ScanPlan,
    groups: Sequence[Sequence[SegmentRecord]],
    *,
    login: NodeLogin | None,
    revision: Revision,
    tls: TlsSource | None,
) -> LocalOpen:
    """Opens the segments of `groups`, which are some of a plan's, at the nodes on this file system that hold them.

    The `login`, which nodes know from `revision` on, is shown again and again: it must not end before the open is
    closed. Raises `Refused` (TABLE_DROPPED, COLUMN_DROPPED, FORBIDDEN, ROWS_TAKEN_AWAY ..) as a scan does. What no node
    can hand out is left out, and can be read over Flight.
    """
    made = LocalOpen()
    opening = _Opening(plan, groups, made, login=login, revision=revision, tls=tls)
    try:
        opening.run()
    except BaseException:
        made.close()
        raise
    if made.ended is not None:
        raise made.ended
    return made


class _Opening:
    """One open, while its nodes are asked one after the other."""

    def __init__(
        self,
        plan: ScanPlan,
        groups: Sequence[Sequence[SegmentRecord]],
        made: LocalOpen,
        *,
        login: NodeLogin | None,
        revision: Revision,
        tls: TlsSource | None,
    ) -> None:
        self._plan = plan
        self._tls = tls
        self._login = login
        self._revision = max(plan.facts.revision, revision)
        self._made = made
        self._draw_id: Callable[[], str] = SystemEntropy().hex_128
        self._left = {segment.id: (number, segment) for number, group in enumerate(groups) for segment in group}
        self._reasons: dict[SegmentId, LeaseholdError] = {}
        self._folders: list[list[Path]] = [[] for _ in groups]

    def run(self) -> None:
        """Fills `made`."""
        untried = {one.node: one for one in self._plan.facts.places}
        while (node := self._next(untried)) is not None:
            place = untried.pop(node)
            if _elsewhere.get(place.address, 0) > THREADS.now_ns():
                self._failed(node, _not_here(place))
                continue
            try:
                self._open_at(place)
            except LeaseholdError as error:
                if error.code in FINAL:
                    raise
                self._failed(node, error)
                if error.code in _ELSEWHERE:
                    if len(_elsewhere) >= FLIGHT_CLIENTS_MAX:
                        _elsewhere.clear()
                    _elsewhere[place.address] = THREADS.now_ns() + LOCAL_ELSEWHERE_NS
        self._made.folders = tuple(tuple(one) for one in self._folders)
        nobody = Unreachable("no node is known to hold it", code=ErrorCode.NO_REPLICA)
        self._made.left_out = {
            one: _old_format() if not _is_by_id(segment) else self._reasons.get(one, nobody)
            for one, (_, segment) in self._left.items()
        }

    def _next(self, untried: Mapping[NodeId, Place]) -> NodeId | None:
        """The node that holds most of what is left; None if none holds any."""
        held = dict.fromkeys(untried, 0)
        for _, segment in self._left.values():
            for node in segment.holders if _is_by_id(segment) else ():
                if node in held:
                    held[node] += 1
        best = max(held, key=lambda one: held[one], default=None)
        return best if best is not None and held[best] else None

    def _failed(self, node: NodeId, error: LeaseholdError) -> None:
        for one in self._held(node):
            self._reasons[one] = error

    def _held(self, node: NodeId) -> list[SegmentId]:
        return [one for one, (_, segment) in self._left.items() if _is_by_id(segment) and node in segment.holders]

    def _open_at(self, place: Place) -> None:
        node = LocalNode.at(place, self._plan.facts.cluster_id, self._tls, self._login)
        root, proof = node.proof(self._revision)
        wanted = self._held(place.node)
        for start in range(0, len(wanted), LOCAL_SEGMENTS_MAX):
            self._open_some(node, root, proof, wanted[start : start + LOCAL_SEGMENTS_MAX])

    def _open_some(self, node: LocalNode, root: Path, proof: bytes, wanted: Sequence[SegmentId]) -> None:
        groups: dict[int, list[SegmentRecord]] = {}
        for one in wanted:
            number, segment = self._left[one]
            groups.setdefault(number, []).append(segment)
        request = self._request(proof, list(groups.values()))
        call = blocking(lambda: node.ask(request, LocalOpened, LOCAL_OPEN_CALL_NS))
        sent_ns, answer = run(sent_and_answer(call, THREADS.now_ns))
        folder = Path(answer.folder)
        if folder != root / request.request:  # it is removed in the end
            raise BadMessage(f"{node.address} has opened {folder}, which is not in {root}")
        part = _Part(
            self._made, node, request.request, folder, SubLease(sent_ns=sent_ns, remaining_ns=answer.remaining_ns)
        )
        if THREADS.now_ns() - sent_ns > LOCAL_RENEW_CALL_NS:  # files were read whole: the sub-lease may be over
            _keeper.renew((part,))
        self._made.add(part)
        missing = set(answer.missing)
        for place, (number, segments) in enumerate(groups.items()):
            here = [one.id for one in segments if one.id not in missing]
            for one in here:
                del self._left[one]
            if here:
                self._folders[number].append(folder / str(place))
        for one in missing:
            self._reasons[one] = Refused(f"node {node.name} does not have it as a file", code=ErrorCode.SEGMENT_MISSING)

    def _request(self, proof: bytes, groups: Sequence[Sequence[SegmentRecord]]) -> OpenLocal:
        plan = self._plan
        assert plan.cutoff is not None, "every plan has a cutoff"
        return OpenLocal(
            cluster_id=plan.facts.cluster_id,
            request=self._draw_id(),
            proof=proof,
            table=plan.facts.table,
            fields=columns_of(plan.fields, plan.where),
            groups=tuple(
                tuple(LocalSegment(bucket=one.bucket, segment=one.id, sha256=one.sha256) for one in group)
                for group in groups
            ),
            revision=self._revision,
            cutoff=plan.cutoff,
            generation=plan.facts.generation,
            through=plan.through,
            login=self._login,
        )


def _is_by_id(segment: SegmentRecord) -> bool:
    return segment.format is SegmentFormat.FIELD_IDS


def _old_format() -> Refused:
    return Refused(
        "its file is of an older format",
        code=ErrorCode.NOT_LOCAL,
        hint="`leasehold compact` makes files of the present one",
    )


def _not_here(place: Place) -> Refused:
    return Refused(
        f"node {place.name} at {place.address} is on another machine, or was not to be reached",
        code=ErrorCode.NOT_LOCAL,
        hint=f"it is asked again within {LOCAL_ELSEWHERE_NS // SECOND_NS} s",
    )
