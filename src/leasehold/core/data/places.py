"""Where a table's replicas are, as last heard: shared by all streams of one reader or writer. Which of them to ask last
is known to the whole client (`core/data/known.py`).

A node decides on a view that it proves current whether rows may be read or written there. So places that are out of
date cost a question and never a wrong row, and a lookup that fails leaves them as they are (L15).
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

from leasehold.core.data.known import Known
from leasehold.core.data.runtime import Runtime
from leasehold.core.membership.generations import generation_changed
from leasehold.core.words.durations import render_duration
from leasehold.core.words.messages import Place, TableFacts
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Unreachable
from leasehold.ids import BucketNumber, Generation, Incarnation, NodeId, Revision
from leasehold.limits.clients import PLACES_AGAIN_NS, REASON_CHARACTERS_MAX
from leasehold.limits.units import MILLISECOND_NS, MINUTE_NS, SECOND_NS

Lookup: TypeAlias = Callable[[], Awaitable[TableFacts]]
"""Looks the table up again: nodes may have moved, others may hold the segment by now."""

AWAY: Final = frozenset(
    {
        ErrorCode.FENCED,
        ErrorCode.BEHIND,
        ErrorCode.BUSY,
        ErrorCode.NOT_JOINED,
        ErrorCode.SILENT,
        ErrorCode.UNREACHABLE,
        ErrorCode.TIMED_OUT,
    }
)
"""What a node says, or its silence, that will be the same for the next segment."""


def silent(waited_ns: int) -> Unreachable:
    """The error of a replica that did not answer in time."""
    return Unreachable(f"no answer for {max(0, waited_ns) // MILLISECOND_NS} ms", code=ErrorCode.SILENT)


def _in_words(time_ns: int) -> str:
    return f"{time_ns / SECOND_NS:.1f} s" if time_ns < MINUTE_NS else render_duration(time_ns // SECOND_NS * SECOND_NS)


class Places:
    """The replicas of one table; several steps may share it. Without `look_up` they stay as they are."""

    def __init__(
        self, facts: TableFacts, look_up: Lookup | None = None, *, runtime: Runtime, known: Known | None = None
    ) -> None:
        self.known = known or Known(runtime)
        """What the client knows that reads or writes here."""
        self.known.heard(facts)
        self._facts = facts
        self._look_up = look_up
        self._now_ns = runtime.now_ns
        self._lock = runtime.condition()
        self._is_asking = False
        self._ask_again_ns: int | None = None
        self._unheard: LeaseholdError | None = None
        self._newer: Generation | None = None

    @property
    def revision(self) -> Revision:
        """The newest revision at which they were looked up, or that the client has heard of since."""
        return max(self._facts.revision, self.known.revision)

    def place(self, node: NodeId) -> Place | None:
        """Where a node serves, if anybody has said so."""
        return next((one for one in self._facts.places if one.node == node), None)

    def replicas(self, bucket: BucketNumber) -> tuple[NodeId, ...]:
        """The nodes that a bucket is assigned to; none if it is not known."""
        return next((one.replicas for one in self._facts.buckets if one.bucket == bucket), ())

    def in_turn(self, nodes: Sequence[NodeId]) -> tuple[NodeId, ...]:
        """`nodes` in the order in which to ask them: those that rest come last, and none is left out."""
        return self.known.in_turn([(node, self._incarnation(node)) for node in nodes])

    def _incarnation(self, node: NodeId) -> Incarnation:
        return next((one.incarnation for one in self._facts.places if one.node == node), Incarnation(0))

    def served(self, node: NodeId) -> None:
        """It does not rest any more."""
        self.known.served(node)

    def failed(self, node: NodeId, error: LeaseholdError) -> None:
        """It rests, if the error is one of `AWAY`."""
        if error.code in AWAY:
            self.known.was_away(node, self._incarnation(node))

    async def look_again(self) -> None:
        """Asks where the replicas are now, unless that was done just now or another step does it this moment.

        A lookup that fails raises nothing. Raises `Refused` with code GENERATION_CHANGED once any step has heard of a
        newer generation.
        """
        self._check_generation()
        if self._look_up is None or not self._may_ask():
            return
        try:
            await self._ask(self._look_up)
            self._ask_again_ns = self._now_ns() + PLACES_AGAIN_NS
        finally:
            with self._lock:
                self._is_asking = False
        self._check_generation()

    def _may_ask(self) -> bool:
        with self._lock:
            if self._is_asking or (self._ask_again_ns is not None and self._now_ns() < self._ask_again_ns):
                return False
            self._is_asking = True
            return True

    def _check_generation(self) -> None:
        if self._newer is not None:
            raise generation_changed(self._facts.generation, self._newer)

    async def _ask(self, look_up: Lookup) -> None:
        try:
            facts = await look_up()
        except LeaseholdError as error:
            self._unheard = error
            return
        self._unheard = None
        if facts.generation != self._facts.generation:
            # Revisions of two generations can't be compared. Generations rise: of an older one nothing is taken.
            self._newer = facts.generation if facts.generation > self._facts.generation else None
            return
        # Of another table under the name nothing is taken, nor what an older leader still believes.
        if facts.table == self._facts.table and facts.revision >= self._facts.revision:
            self._facts = facts

    def nobody(self, what: str, reasons: Mapping[NodeId, LeaseholdError], *, is_write: bool = False) -> Unreachable:
        """The error once no replica has done `what` for too long, with the `reasons`, and until when that lasts. A
        write may go on at other replicas, which have nothing to read yet."""
        said = "; ".join(self._said(node, error) for node, error in sorted(reasons.items()))
        unheard = self._unheard
        if unheard is not None:
            said += f"; the coordinator was asked for other replicas: {unheard.text[:REASON_CHARACTERS_MAX]}"
        if reasons and all(error.code == ErrorCode.FENCED for error in reasons.values()):
            hint = (
                "`leasehold status` shows the state of each node; a fenced node serves again when it hears from the"
                " leader: check that a coordinator runs and that the nodes can reach it"
            )
        elif full := [node for node, error in sorted(reasons.items()) if error.code == ErrorCode.DISK_FULL]:
            names = ", ".join(map(self._name, full))
            hint = (
                f"free some space on the disk of {names}, and try again; `leasehold status` shows which disks are full"
            )
        else:
            names = ", ".join(self._name(node) for node in sorted(reasons))
            hint = (
                f"it goes on as soon as one of {names} serves again: start a node that does not run; `leasehold"
                f" status` shows their states{self._until(reasons) if is_write else ''}"
                if reasons
                else "`leasehold status` shows which nodes serve: start a node that holds it"
            )
        return Unreachable(f"{what}: {said or 'no node is known to hold it'}", code=ErrorCode.NO_REPLICA, hint=hint)

    def _said(self, node: NodeId, error: LeaseholdError) -> str:
        text = f"{error.text[:REASON_CHARACTERS_MAX]}{self._since(node)}"
        if text.startswith(f"node {node} "):
            return text
        name = self._name(node)
        return f"node {node}: {text}" if name == str(node) else f"node {node} ({name}): {text}"

    def _since(self, node: NodeId) -> str:
        """Since when the leader misses a node, or how long it still counts its lease."""
        absence = next((one for one in self._facts.absences if one.node == node), None)
        if absence is None:
            return ""
        if absence.lease_remaining_ns:
            return f" (its lease ends in {_in_words(absence.lease_remaining_ns)})"
        return f" (it has held no lease for {_in_words(absence.away_ns)})"

    def _until(self, nodes: Collection[NodeId]) -> str:
        """When the first of these nodes is replaced, as `replace_after` says."""
        times = [one.replaced_in_ns for one in self._facts.absences if one.node in nodes]
        known = [one for one in times if one is not None]
        return (
            f"; or once other nodes take over its buckets, in {_in_words(min(known))} (replace_after)" if known else ""
        )

    def _name(self, node: NodeId) -> str:
        """What people call it: its number if nobody has said its name."""
        return next((one.name for one in self._facts.places if one.node == node), None) or str(node)
