"""Words that the lease scenarios share: how a quiet cluster comes about, before something happens to it."""

import pytest

from leasehold.core.words.messages import Grant, Renewal, RenewalRefused
from leasehold.ids import NodeId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.leases.actors import ActorStage
from leasehold.testing.leases.ground import LEADERSHIP_NS
from leasehold.testing.leases.script import ScriptedWorld
from leasehold.testing.news import Proceeded
from leasehold.testing.oracle import InvariantViolated

LONGEST_WAIT_NS = 3_600_000_000


class Watched(ScriptedWorld):
    """Keeps the barriers that proceeded, with the real instant of each."""

    def __init__(self, **options):
        super().__init__(**options)
        self.proceeded = []
        saw = self.oracle.saw

        def remember(news):
            if isinstance(news, Proceeded):
                self.proceeded.append((self.oracle.real_ns, news.receipt))
            saw(news)

        self.oracle.saw = remember


def elect(world, number=0):
    """A coordinator wins and takes office; whoever led before has resigned or run out."""
    leader = world.coordinators[number]
    world.look(leader)
    if world.record.holder is not None:
        world.advance(3 * LEADERSHIP_NS)
    assert world.campaign(leader)
    assert world.take_office(leader)
    return leader


def hold_office(world, leader):
    """One beat, sent, stored and answered at once."""
    assert world.send_beat(leader)
    assert world.commit_beat(leader)
    assert world.answer_beat(leader)


def enter(world, leader, number=1, **options):
    """A process of a node starts, joins, and has its first lease."""
    process = world.start(NodeId(number), **options)
    assert world.join(process, leader)
    assert world.connect(process, leader)
    assert ask(world, process) is Grant
    return process


def send_renewal(world, process):
    """The next renewal leaves, as soon as it is due; it stays on its way."""
    due_ns = process.holder.next_deadline_ns()
    world.advance(max(0, process.clock.real_ns(due_ns) - world.oracle.real_ns))
    assert world.timer(process)
    return world.under_way(Renewal, process)


def ask(world, process):
    """The renewal under way arrives and so does its answer; says which it was."""
    assert world.deliver(world.under_way(Renewal, process))
    answers = [
        one for one in world.network if one.process is process and isinstance(one.message, Grant | RenewalRefused)
    ]
    assert world.deliver(answers[-1])
    return type(answers[-1].message)


def answer_under_way(world, process, renewal):
    """The renewal arrives; its answer stays on its way."""
    assert world.deliver(renewal)
    return [one for one in world.network if one.message.request == renewal.message.request][-1]


def serve(world, process):
    """One guard from its first reading to its last; the view that was released, or None."""
    before = len(world.oracle.serves)
    run = world.begin_guard(process)
    assert run is not None
    while run in process.guards:
        assert world.advance_guard(run)
    return world.oracle.serves[-1].view if len(world.oracle.serves) > before else None


def change(world, leader, give_up_ns=None):
    """A DDL becomes durable and its barrier opens."""
    assert world.append(leader)
    assert world.open_barrier(leader, give_up_ns)
    return world.latest


def wait_out(world, leader, span_ns=LONGEST_WAIT_NS, *, step_ns=SECOND_NS // 20):
    """Time passes in small steps; the leader stays in office and judges its barriers whenever it is due."""
    end_ns = world.oracle.real_ns + span_ns
    while world.oracle.real_ns < end_ns:
        world.advance(min(step_ns, end_ns - world.oracle.real_ns))
        hold_office(world, leader)
        world.judge(leader)


def restart(world, process, **options):
    """The process is killed (unless it has ended) and another of the same node starts."""
    if process.stage is not ActorStage.ENDED or process in world.processes:
        assert world.kill(process)
    return world.start(process.node, **options)


def caught(invariant, script, parts, world=Watched):
    """The same interleaving with one rule broken is noticed, by name."""
    with pytest.raises(InvariantViolated) as violation:
        script(world(parts=parts))
    assert violation.value.invariant == invariant


def settled(world):
    """Node and how, of the last barrier that proceeded."""
    return [(one.node, one.how) for one in world.proceeded[-1][1].settled]
