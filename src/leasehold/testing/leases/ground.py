"""The ground the world stands on: real time, the store, the network, and the engines with the effects they ask for.

The store is linearizable: a revision counter, the leader record, the registrations and the settings.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from leasehold.core.lease.barrier import Fail, Proceed
from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import (
    AcceptEndReport,
    AcceptSurrender,
    GrantorEvent,
    RefuseRenewal,
    Registered,
    ReportVerdict,
    SendGrant,
)
from leasehold.core.lease.holder import (
    Holder,
    HolderEvent,
    PublishLease,
    SendRenewal,
    SendSurrender,
    guard,
)
from leasehold.core.words.records import SettingsRecord
from leasehold.ids import Incarnation, NodeId, Revision, Session, Term
from leasehold.limits.lease import DRIFT_PPM, LEASE_DURATION_NS, LEASE_MARGIN_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.invariants import INVARIANTS
from leasehold.testing.leases.actors import (
    Envelope,
    Guard,
    LeaderRecordSeen,
    LeaseCoordinator,
    LocalClock,
    NodeProcess,
    Travelling,
)
from leasehold.testing.oracle import Invariant, Oracle

LEADERSHIP_NS: Final = 2 * SECOND_NS
LEADERSHIP_MARGIN_NS: Final = 200 * MILLISECOND_NS
REAPED_MAX: Final = 4
TRUE_CLOCK: Final = LocalClock(0, 0)
SETTINGS: Final = SettingsRecord(
    lease_duration_ns=LEASE_DURATION_NS,
    lease_margin_ns=LEASE_MARGIN_NS,
    drift_ppm=DRIFT_PPM,
    catch_up_difference=100,
    min_in_sync=1,
)


def hash_session(session: Session) -> bytes:
    """In place of SHA-256: as distinct, and readable in a trace."""
    return session.encode()


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The code that the world runs: production code, unless a test breaks a part on purpose."""

    holder: type[Holder] = Holder
    grantor: type[Grantor] = Grantor
    guard: Guard = guard
    settings: SettingsRecord = SETTINGS
    drift_ppm: int = DRIFT_PPM
    """How far the clocks of a random world really drift."""


class Ground:
    """Nodes with ids from 1 and coordinators numbered from 0; `clocks` gives first the nodes', then theirs."""

    def __init__(
        self,
        *,
        nodes: int = 2,
        coordinators: int = 2,
        clocks: Iterable[LocalClock] = (),
        parts: Parts | None = None,
        invariants: tuple[Invariant, ...] = INVARIANTS,
        seed: int | None = None,
        command: str | None = None,
    ) -> None:
        given = [*clocks]
        given += [TRUE_CLOCK] * (nodes + coordinators - len(given))
        self.parts = Parts() if parts is None else parts
        self.clocks = {NodeId(number + 1): given[number] for number in range(nodes)}
        self.coordinators = [
            LeaseCoordinator(number=number, clock=given[nodes + number]) for number in range(coordinators)
        ]
        self.processes: list[NodeProcess] = []
        self.reaped: list[NodeProcess] = []
        """Those that were killed while their supervisor lives on; the newest REAPED_MAX."""
        self.real_ns = 0
        self.oracle = Oracle(invariants, now_ns=lambda: self.real_ns, seed=seed, command=command)
        self.network: list[Envelope] = []
        # The store.
        self.latest = Revision(1)
        self.record = LeaderRecordSeen(Term(0), 0, None)
        never = Registered(incarnation=Incarnation(0), session_hash=None, member=False)
        self.registered: dict[NodeId, Registered] = dict.fromkeys(self.clocks, never)
        self.settings = self.parts.settings
        self.largest_ns = self.settings.lease_duration_ns
        self.unreturned: list[Revision] = []
        self._processes_made = 0
        self._barriers_made = 0

    def send(self, process: NodeProcess, coordinator: int, message: Travelling) -> None:
        """Sends a message without disturbance; a random world decides its fate here."""
        self.network.append(Envelope(process, coordinator, message, self.real_ns))

    # ------------------------------------------------------------ engines

    def now_ns(self, actor: NodeProcess | LeaseCoordinator) -> int:
        """An actor's own clock."""
        return actor.clock.now_ns(self.real_ns)

    def leads(self, coordinator: LeaseCoordinator) -> bool:
        """Whether it leads, as far as its own clock can tell."""
        return self.now_ns(coordinator) < coordinator.leads_until_ns

    def owns(self, coordinator: LeaseCoordinator) -> bool:
        """Whether a transaction that compares its term would succeed."""
        return coordinator.term == self.record.term and self.record.holder == coordinator.number

    def holder_step(self, process: NodeProcess, event: HolderEvent) -> None:
        """Feeds a holder one event and does what it asks for."""
        assert process.holder is not None
        for effect in process.holder.step(event, self.now_ns(process)):
            match effect:
                case PublishLease(lease=lease):
                    process.lease = lease
                case SendRenewal(renewal=message) | SendSurrender(surrender=message):
                    if process.stream is not None and not process.cut:
                        self.send(process, process.stream, message)

    def grantor_step(
        self, coordinator: LeaseCoordinator, event: GrantorEvent, envelope: Envelope | None = None
    ) -> None:
        """Feeds a grantor one event, of a message if it came in one, and does what it asks for."""
        grantor = coordinator.grantor
        assert grantor is not None
        effects = grantor.step(event, self.now_ns(coordinator))
        for effect in effects:
            match effect:
                case SendGrant(grant=answer) | RefuseRenewal(refused=answer):
                    assert envelope is not None
                    self.send(envelope.process, coordinator.number, answer)
                case ReportVerdict(number=number, verdict=verdict):
                    self._verdict(coordinator, coordinator.barriers.pop(number), verdict)
                case AcceptSurrender() | AcceptEndReport():
                    pass  # the process has ended

    def _verdict(self, coordinator: LeaseCoordinator, revision: Revision, verdict: Proceed | Fail) -> None:
        if isinstance(verdict, Fail):
            coordinator.unopened.append(revision)
            return
        self.oracle.returned = max(self.oracle.returned, revision)
        if revision in self.unreturned:
            self.unreturned.remove(revision)

    def did(self, line: str) -> bool:
        """Ends a step: notes it, and checks every invariant. Raises `InvariantViolated`."""
        self.oracle.note(line)
        self.oracle.check()
        return True

    def retire(self, coordinator: LeaseCoordinator) -> None:
        """A coordinator forgets what it knew."""
        self.oracle.retired(coordinator.term)
        coordinator.retire()
