"""The steps of coordinators in the scripted world (`testing/leases/script.py`): they are elected, lead, and end."""

import msgspec

from leasehold.core.lease.drift import outlast_ns
from leasehold.core.lease.grants import (
    BarrierRequested,
    LeadershipExtended,
    SettingsChanged,
)
from leasehold.core.words.time_passed import TimePassed
from leasehold.ids import Revision, Term
from leasehold.testing.leases.actors import (
    LeaderRecordSeen,
    LeaseCoordinator,
)
from leasehold.testing.leases.ground import LEADERSHIP_MARGIN_NS, LEADERSHIP_NS, Ground, hash_session
from leasehold.testing.news import Elected
from leasehold.testing.observe import watched_grantor


class LeadingSteps(Ground):
    """As in `ScriptedWorld`: one atomic step each, which answers False if it isn't possible now."""

    # ------------------------------------------------------------ leadership

    def look(self, coordinator: LeaseCoordinator) -> bool:
        """A coordinator reads the leader record, and notes when it first saw it as it is."""
        if coordinator.paused or coordinator.seen == self.record:
            return False
        coordinator.seen = self.record
        coordinator.seen_at_ns = self.now_ns(coordinator)
        return self.did(f"{coordinator.name} sees term {self.record.term} beat {self.record.beat}")

    def campaign(self, coordinator: LeaseCoordinator) -> bool:
        """Takes the record it has seen unchanged for long enough; in office only after `take_office`."""
        now_ns = self.now_ns(coordinator)
        if coordinator.paused or coordinator.seen != self.record or self.leads(coordinator):
            return False
        patience_ns = outlast_ns(LEADERSHIP_NS, self.settings.drift_ppm) + LEADERSHIP_MARGIN_NS
        if self.record.holder is not None and now_ns < coordinator.seen_at_ns + patience_ns:
            return False
        self.retire(coordinator)
        self.record = LeaderRecordSeen(Term(self.record.term + 1), 0, coordinator.number)
        self.oracle.saw(Elected(term=self.record.term, newest=self.latest))
        coordinator.term = self.record.term
        coordinator.leads_until_ns = now_ns + LEADERSHIP_NS
        return self.did(f"{coordinator.name} wins term {coordinator.term}")

    def take_office(self, coordinator: LeaseCoordinator) -> bool:
        """Reads LM, the registrations and the largest duration, all after winning, and starts to grant."""
        if coordinator.paused or coordinator.grantor is not None or not self.leads(coordinator):
            return False
        coordinator.unopened.extend(self.unreturned)
        coordinator.grantor = watched_grantor(self.oracle, coordinator.name, coordinator.clock, self.parts.grantor)(
            term=coordinator.term,
            floor=self.latest,
            settings=self.settings,
            largest_outstanding_ns=self.largest_ns,
            registered=self.registered,
            hash_session=hash_session,
            leads_until_ns=coordinator.leads_until_ns,
            now_ns=self.now_ns(coordinator),
        )
        return self.did(f"{coordinator.name} takes office, floor {self.latest}")

    def send_beat(self, coordinator: LeaseCoordinator) -> bool:
        """Reads the clock and sends the next beat; an earlier one without an answer is given up."""
        if coordinator.paused or not self.leads(coordinator):
            return False
        coordinator.beat_sent_at_ns = self.now_ns(coordinator)
        coordinator.beat_committed = False
        return self.did(f"{coordinator.name} sends a beat")

    def commit_beat(self, coordinator: LeaseCoordinator) -> bool:
        """The store takes the beat, if the record is still this leader's."""
        if coordinator.beat_sent_at_ns is None or coordinator.beat_committed or not self.owns(coordinator):
            return False
        self.record = LeaderRecordSeen(self.record.term, self.record.beat + 1, coordinator.number)
        coordinator.beat_committed = True
        return self.did(f"beat {self.record.beat} of {coordinator.name} is stored")

    def answer_beat(self, coordinator: LeaseCoordinator) -> bool:
        """The leader hears of it: it leads until the sending time plus the duration."""
        sent_ns = coordinator.beat_sent_at_ns
        if coordinator.paused or sent_ns is None or not coordinator.beat_committed or not self.leads(coordinator):
            return False
        coordinator.beat_sent_at_ns = None
        coordinator.leads_until_ns = max(coordinator.leads_until_ns, sent_ns + LEADERSHIP_NS)
        if coordinator.grantor is not None:
            self.grantor_step(coordinator, LeadershipExtended(until_ns=coordinator.leads_until_ns))
        return self.did(f"{coordinator.name} leads on")

    def resign(self, coordinator: LeaseCoordinator) -> bool:
        """A clean hand-over: it stops, then frees the record."""
        if coordinator.paused or not self.owns(coordinator):
            return False
        self.retire(coordinator)
        self.record = LeaderRecordSeen(self.record.term, self.record.beat, None)
        return self.did(f"{coordinator.name} resigns")

    def crash(self, coordinator: LeaseCoordinator) -> bool:
        """A coordinator restarts and has forgotten everything."""
        self.retire(coordinator)
        return self.did(f"{coordinator.name} restarts")

    # ------------------------------------------------------------ what a leader does

    def append(self, coordinator: LeaseCoordinator) -> bool:
        """A DDL becomes durable at a new revision; a leader's transaction compares its term."""
        if coordinator.paused or coordinator.grantor is None or not self.owns(coordinator):
            return False
        self.latest = Revision(self.latest + 1)
        self.unreturned.append(self.latest)
        coordinator.unopened.append(self.latest)
        return self.did(f"{coordinator.name} commits revision {self.latest}")

    def open_barrier(self, coordinator: LeaseCoordinator, give_up_ns: int | None = None) -> bool:
        """Opens the barrier of the oldest durable change that has none here; gives up that long after."""
        if coordinator.paused or coordinator.grantor is None or not coordinator.unopened:
            return False
        revision = coordinator.unopened.popleft()
        self._barriers_made += 1
        coordinator.barriers[self._barriers_made] = revision
        until_ns = None if give_up_ns is None else self.now_ns(coordinator) + give_up_ns
        event = BarrierRequested(number=self._barriers_made, revision=revision, give_up_ns=until_ns)
        self.grantor_step(coordinator, event)
        return self.did(f"{coordinator.name} opens barrier({revision})")

    def judge(self, coordinator: LeaseCoordinator) -> bool:
        """The leader's timer."""
        if coordinator.paused or coordinator.grantor is None or coordinator.grantor.next_deadline_ns() is None:
            return False
        self.grantor_step(coordinator, TimePassed())
        return self.did(f"{coordinator.name} judges its barriers")

    def set_duration(self, coordinator: LeaseCoordinator, duration_ns: int) -> bool:
        """ALTER CLUSTER SET: the largest outstanding duration is raised in the same transaction, before any grant."""
        if coordinator.paused or coordinator.grantor is None or not self.owns(coordinator):
            return False
        self.settings = msgspec.structs.replace(self.settings, lease_duration_ns=duration_ns)
        self.largest_ns = max(self.largest_ns, duration_ns)
        self.grantor_step(coordinator, SettingsChanged(settings=self.settings))
        return self.did(f"{coordinator.name} sets the lease duration to {duration_ns / 1e9}s")
