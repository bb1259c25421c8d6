"""The scripted world: the lease protocol's production objects among drifting clocks, one explicit step at a time.

Each public method is one atomic step of one actor; all interleavings are sequences of them. A step that isn't
possible now answers False and changes nothing. After each one that happened, every invariant is checked. Between two
steps of one actor anything else may happen: that is what a pause (SIGSTOP, a suspended machine) is made of.
"""

from typing import Final

import msgspec

from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import (
    EndReportReceived,
    IncarnationClosed,
    IncarnationJoined,
    MemberEntered,
    Registered,
    RenewalReceived,
    SurrenderReceived,
)
from leasehold.core.lease.holder import Applied, Drained, GrantReceived, SessionEstablished, SurrenderRequested
from leasehold.core.lease.process_end import end_hash
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import Grant, Renewal, RenewalRefused, ReportProcessEnd, Surrender
from leasehold.core.words.time_passed import TimePassed
from leasehold.ids import ClusterId, Incarnation, NodeId, Revision
from leasehold.limits.lease import RENEWAL_INTERVAL_NS
from leasehold.testing.leases.actors import (
    ActorStage,
    Envelope,
    GuardRun,
    LeaseCatalog,
    LeaseCoordinator,
    LocalClock,
    NodeProcess,
    Travelling,
)
from leasehold.testing.leases.ground import REAPED_MAX, hash_session
from leasehold.testing.leases.leading import LeadingSteps
from leasehold.testing.news import Passed
from leasehold.testing.oracle import NO_TABLE

CLUSTER: Final = ClusterId("c" * 32)


class ScriptedWorld(LeadingSteps):
    """The steps; their caller is the scheduler."""

    # ------------------------------------------------------------ time and faults

    def advance(self, span_ns: int) -> bool:
        """Real time passes."""
        self.real_ns += span_ns
        return self.did(f"{span_ns / 1e9:.6f}s pass")

    def switch(self, actor: NodeProcess | LeaseCoordinator, fault: str, on: bool) -> bool:
        """Turns a fault on or off: `paused` (SIGSTOP), and of a process `cut` (off the network), `stuck`."""
        if getattr(actor, fault, on) is on:
            return False
        setattr(actor, fault, on)
        return self.did(f"{actor.name} {'is' if on else 'is no longer'} {fault}")

    def lose(self, envelope: Envelope) -> bool:
        """A message never arrives."""
        self.network.remove(envelope)
        return self.did(f"lost: {envelope.name}")

    def double(self, envelope: Envelope) -> bool:
        """A message will arrive twice."""
        self.network.append(msgspec.structs.replace(envelope, copy=True))
        return self.did(f"doubled: {envelope.name}")

    # ------------------------------------------------------------ a process's life

    def start(self, node: NodeId, *, view: Revision | None = None, clock: LocalClock | None = None) -> NodeProcess:
        """A new process of a node, with the vault's view; beside an older one it is a clone."""
        self._processes_made += 1
        process = NodeProcess(
            number=self._processes_made,
            node=node,
            clock=self.clocks[node] if clock is None else clock,
            view=LeaseCatalog(self.latest if view is None else view),
            previous=self.registered[node].incarnation,
        )
        self.processes.append(process)
        self.oracle.began(process)
        self.did(f"{process.name} starts with view {process.view.revision}")
        return process

    def kill(self, process: NodeProcess, *, machine: bool = True) -> bool:
        """SIGKILL, also of its supervisor if all of its `machine` fails; what it sent stays on its way."""
        process.stage = ActorStage.ENDED
        self.processes.remove(process)
        self.oracle.ended(process)
        if not machine:
            self.reaped = [*self.reaped, process][-REAPED_MAX:]
        return self.did(f"{process.name} is killed")

    def report_end(self, process: NodeProcess, coordinator: LeaseCoordinator) -> bool:
        """The supervisor of a process that was killed tells a coordinator, which may lead or not."""
        if process not in self.reaped or not process.incarnation:
            return False
        report = ReportProcessEnd(
            cluster_id=CLUSTER, node=process.node, incarnation=process.incarnation, proof=process.end_proof()
        )
        self.send(process, coordinator.number, report)
        return self.did(f"the supervisor of {process.name} tells {coordinator.name}")

    def close_older(self, process: NodeProcess, coordinator: LeaseCoordinator) -> bool:
        """Join, first step: the leader finds the lease of the older incarnation ended, and closes that."""
        grantor = self._serving(process, coordinator, ActorStage.JOINING)
        if (
            grantor is None
            or not self.leads(coordinator)
            or self.registered[process.node].incarnation != process.previous
        ):
            return False
        held = grantor.held(process.node)
        if held is None or held.incarnation != process.previous or held.closed is not None:
            return False
        if self.now_ns(coordinator) < held.bound_ns:
            return False
        event = IncarnationClosed(node=process.node, incarnation=held.incarnation)
        self.grantor_step(coordinator, event)
        return self.did(f"{coordinator.name} closes incarnation {held.incarnation} of node {process.node}")

    def write_join(self, process: NodeProcess, coordinator: LeaseCoordinator) -> bool:
        """Join, second step: the incarnation is raised by compare-and-swap, under the leader's term."""
        grantor = self._serving(process, coordinator, ActorStage.JOINING)
        if (
            grantor is None
            or not self.owns(coordinator)
            or self.registered[process.node].incarnation != process.previous
        ):
            return False
        held = grantor.held(process.node)
        if held is not None and (held.incarnation != process.previous or held.closed is None):
            return False
        raised = Incarnation(process.previous + 1)
        session_hash = hash_session(process.session)
        self.registered[process.node] = Registered(
            incarnation=raised, session_hash=session_hash, member=False, end_hash=end_hash(process.end_proof())
        )
        return self.did(f"{coordinator.name} writes incarnation {raised} of {process.name}")

    def finish_join(self, process: NodeProcess, coordinator: LeaseCoordinator) -> bool:
        """Join, last step: the leader knows, and the process hears; by any later leader too (same nonce, session)."""
        grantor = self._serving(process, coordinator, ActorStage.JOINING)
        registered = self.registered[process.node]
        incarnation, session_hash = registered.incarnation, registered.session_hash
        if grantor is None or not self.leads(coordinator) or session_hash is None:
            return False
        if session_hash != hash_session(process.session):
            return False
        held = grantor.held(process.node)
        if held is None or held.incarnation < incarnation:
            joined = IncarnationJoined(
                node=process.node, incarnation=incarnation, session_hash=session_hash, end_hash=registered.end_hash
            )
            self.grantor_step(coordinator, joined)
        process.incarnation = process.previous = incarnation
        process.stage = ActorStage.SERVING
        process.holder = self.parts.holder(
            node=process.node,
            incarnation=incarnation,
            session=process.session,
            applied=process.view.revision,
            lineage=GENESIS,
            renew_every_ns=RENEWAL_INTERVAL_NS,
        )
        return self.did(f"{process.name} has joined as incarnation {incarnation}")

    def join(self, process: NodeProcess, coordinator: LeaseCoordinator) -> bool:
        """The whole join at once."""
        self.close_older(process, coordinator)
        return self.write_join(process, coordinator) and self.finish_join(process, coordinator)

    def connect(self, process: NodeProcess, coordinator: LeaseCoordinator) -> bool:
        """A stream to a leader opens; messages on the old one stay there. The process enters the logical topology, if
        it is not in it; only the floor is required of it, so that only the lease is tested.
        """
        grantor = self._serving(process, coordinator, ActorStage.SERVING)
        if grantor is None:
            return False
        process.stream = coordinator.number
        registered = self.registered[process.node]
        if registered.incarnation == process.incarnation and not registered.member and self.owns(coordinator):
            self.registered[process.node] = msgspec.structs.replace(registered, member=True)
            entered = MemberEntered(node=process.node, incarnation=process.incarnation, required=grantor.floor)
            self.grantor_step(coordinator, entered)
        self.holder_step(process, SessionEstablished(term=coordinator.term))
        return self.did(f"{process.name} opens a stream to {coordinator.name}")

    def timer(self, process: NodeProcess) -> bool:
        """The holder's timer runs."""
        if process.paused or process.holder is None or process.stage is not ActorStage.SERVING:
            return False
        due_ns = process.holder.next_deadline_ns()
        if due_ns is None or self.now_ns(process) < due_ns:
            return False
        self.holder_step(process, TimePassed())
        return self.did(f"the timer of {process.name} runs")

    def publish(self, process: NodeProcess, revision: Revision | None = None) -> bool:
        """The process publishes the next view (or a later one, by a leap)."""
        revision = Revision(process.view.revision + 1) if revision is None else revision
        if process.paused or process.stuck or process.cut or not process.view.revision < revision <= self.latest:
            return False
        process.view = LeaseCatalog(revision)
        return self.did(f"{process.name} publishes view {revision}")

    def report(self, process: NodeProcess) -> bool:
        """The holder learns what has been published."""
        if process.paused or process.holder is None or process.holder.applied >= process.view.revision:
            return False
        applied = Applied(revision=process.view.revision, lineage=GENESIS, urgent=True)
        self.holder_step(process, applied)
        return self.did(f"{process.name} reports {process.view.revision}")

    def surrender(self, process: NodeProcess) -> bool:
        """A clean stop begins: no guard that starts from now on passes."""
        if process.paused or process.holder is None or process.stage is not ActorStage.SERVING:
            return False
        process.stage = ActorStage.DRAINING
        self.holder_step(process, SurrenderRequested())
        return self.did(f"{process.name} stops serving")

    def drained(self, process: NodeProcess) -> bool:
        """The last message goes out; as in an agent, guards may be under way: they look again before they pass."""
        if process.paused or process.holder is None or process.stage is not ActorStage.DRAINING:
            return False
        process.stage = ActorStage.ENDED
        self.holder_step(process, Drained())
        return self.did(f"{process.name} surrenders")

    # ------------------------------------------------------------ serving

    def begin_guard(self, process: NodeProcess) -> GuardRun | None:
        """A request arrives; the guard takes its first reading."""
        if process.paused or process.holder is None:
            return None
        run = GuardRun(process, self.oracle.returned)
        process.guards.append(run)
        self.advance_guard(run)
        return run

    def advance_guard(self, run: GuardRun) -> bool:
        """The guard takes its next reading; after the last one the batch is released, or refused."""
        process = run.process
        if process.paused or run not in process.guards:
            return False
        ended, outcome = run.advance(self.parts.guard, self.real_ns, self.oracle.proceeded)
        if ended:
            process.guards.remove(run)
        if outcome is not None:
            self.oracle.saw(
                Passed(process=process, outcome=outcome, returned=run.returned, proceeded=run.proceeded, table=NO_TABLE)
            )
        what = "reads" if not ended else "is fenced" if outcome is None else f"passes on {outcome.view.revision}"
        return self.did(f"a guard of {process.name} {what}")

    # ------------------------------------------------------------ messages

    def deliver(self, envelope: Envelope) -> bool:
        """A message arrives; it is lost if its receiver is gone."""
        process, coordinator = envelope.process, self.coordinators[envelope.coordinator]
        to_node = isinstance(envelope.message, Grant | RenewalRefused)
        if (process.paused if to_node else coordinator.paused) or envelope not in self.network:
            return False
        self.network.remove(envelope)
        match envelope.message:
            case Grant() as grant if process in self.processes and process.holder is not None:
                self.holder_step(process, GrantReceived(grant=grant))
            case Renewal() as renewal if coordinator.grantor is not None:
                self.grantor_step(coordinator, RenewalReceived(renewal=renewal), envelope)
            case Surrender() as surrender if coordinator.grantor is not None:
                self.grantor_step(coordinator, SurrenderReceived(surrender=surrender), envelope)
            case ReportProcessEnd() as report if coordinator.grantor is not None:
                self.grantor_step(coordinator, EndReportReceived(report=report), envelope)
            case _:
                pass  # a refusal, or nobody is there any more
        return self.did(f"arrived: {envelope.name}")

    def under_way(self, kind: type[Travelling], process: NodeProcess) -> Envelope:
        """The latest message of a kind on a process's streams."""
        return [one for one in self.network if isinstance(one.message, kind) and one.process is process][-1]

    @staticmethod
    def _serving(process: NodeProcess, coordinator: LeaseCoordinator, stage: ActorStage) -> Grantor | None:
        if process.paused or process.cut or coordinator.paused or process.stage is not stage:
            return None
        return coordinator.grantor
