"""Members driven by hand: every event with its time, every effect looked at."""

from random import Random

from leasehold.core.swim.events import (
    DatagramReceived,
    LeaveFinished,
    LeaveRequested,
    MemberChanged,
    SendDatagram,
    Started,
)
from leasehold.core.swim.machine import Swim
from leasehold.core.swim.messages import Ack, Member, MemberClaim, News, Ping, Role, State
from leasehold.core.words.time_passed import TimePassed

MS = 1_000_000
S = 1_000 * MS


def member(name, port=1):
    return Member(name=name, address=f"{name}:{port}", role=Role.NODE, service=f"{name}:9", node=0)


def claim(name, incarnation=1, state=State.ALIVE, by="", port=1):
    return MemberClaim(member=member(name, port), incarnation=incarnation, state=state, by=by)


def suspected(name, incarnation=1, by="x"):
    return claim(name, incarnation, State.SUSPECT, by)


def dead(name, incarnation=1):
    return claim(name, incarnation, State.DEAD)


def news(*claims, sender="x"):
    return DatagramReceived(source=f"{sender}:1", datagram=News(sender=sender, claims=claims))


class By:
    """One member `me`, and a clock that the test moves."""

    def __init__(self, *, knows=(), seeds=(), seed=1, incarnation=1, start=True):
        random = Random(seed)
        self.swim = Swim(me=member("me"), seeds=seeds, draw=random.randrange, incarnation=incarnation)
        self.now_ns = 100 * S
        self.changes = []
        self.sent = []
        if start:
            self.step(Started())
        if knows:
            self.step(news(*(claim(name) for name in knows), sender=knows[0]))

    def step(self, event):
        effects = self.swim.step(event, self.now_ns)
        self.changes += [(one.member.name, one.state) for one in effects if isinstance(one, MemberChanged)]
        self.sent += [(one.address, one.datagram) for one in effects if isinstance(one, SendDatagram)]
        return effects

    def hear(self, *claims, sender="x"):
        return self.step(news(*claims, sender=sender))

    def get(self, datagram):
        return self.step(DatagramReceived(source=f"{datagram.sender}:1", datagram=datagram))

    def tick(self):
        """Goes to the next deadline, exactly."""
        self.now_ns = max(self.now_ns, self.swim.next_deadline_ns())
        return self.step(TimePassed())

    def pass_time(self, until_ns, answer=()):
        """Lets time pass; those named answer their pings at once, and refute what they hear with them. What was
        sent."""
        sent = []
        while (due_ns := self.swim.next_deadline_ns()) is not None and due_ns <= until_ns:
            self.tick()
            for address, datagram in self.take():
                sent.append((address, datagram))
                name = address.partition(":")[0]
                if isinstance(datagram, Ping) and name in answer:
                    refuted = [
                        claim(name, one.incarnation + 1)
                        for one in datagram.claims
                        if one.member.name == name and one.state is not State.ALIVE
                    ]
                    self.get(Ack(sender=name, number=datagram.number, target=name, claims=tuple(refuted)))
        self.now_ns = until_ns
        return sent

    def until(self, holds, *, at_most_s=60, answer=()):
        """Lets time pass until it holds; how long that took."""
        began_ns = self.now_ns
        while not holds():
            due_ns = self.swim.next_deadline_ns()
            assert due_ns is not None
            assert due_ns <= began_ns + at_most_s * S, "it does not come to hold"
            self.pass_time(due_ns, answer)
        return self.now_ns - began_ns

    def take(self):
        """What was sent since."""
        sent, self.sent = self.sent, []
        return sent

    def kinds(self, kind):
        """What was sent since of one kind, the rest forgotten."""
        return [one for one in self.take() if isinstance(one[1], kind)]

    def sees(self, name):
        return next((known.state for known in self.swim.seen() if known.member.name == name), None)

    def leave(self):
        """Tells it to leave, unless that was done, and waits until it has."""
        effects = list(self.step(LeaveRequested()))
        while self.swim.next_deadline_ns() is not None:
            effects += self.tick()
        assert isinstance(effects[-1], LeaveFinished)
        return effects


def to_ping(by):
    """Goes to its next ping."""
    by.take()
    while not (pings := [one for one in by.sent if isinstance(one[1], Ping)]):
        by.tick()
    return pings[0]
