"""The claim: every row of its table, and every crash point led back to the same id (INV-ID-3)."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.lease.grants import HeldLease
from leasehold.core.membership.admission import (
    Admit,
    Fresh,
    JoinerHistory,
    KnownToken,
    Same,
    WaitUntil,
    decide_allocate,
    decide_join,
)
from leasehold.core.membership.identity import (
    CAPABILITIES,
    Admitted,
    Candidate,
    ClusterLearned,
    IdAllocated,
    Joined,
    RecordWritten,
    SendAllocate,
    SendJoin,
    Start,
    WriteRecord,
    WrongCluster,
    hash_secret,
)
from leasehold.core.membership.rejections import Reject
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.messages import Allocate, ClusterFacts, Join
from leasehold.core.words.records import Allocated, Claiming, ClusterRecord, CountersRecord, Joining, SettledHow
from leasehold.limits.messages import PROTOCOL_VERSION_MIN
from tests.few import examples
from tests.unit.core.catalog_words import hex_128

CLUSTER_ID = "c" * 32
FACTS = ClusterFacts(cluster_id=CLUSTER_ID, generation=4, term=9, leader=True)
START = Start(
    name="n1",
    address="h:1",
    session=hex_128(0x5E),
    token=hex_128(0x70),
    nonce=hex_128(0x40),
    applied=7,
    lineage=GENESIS,
    generation=4,
)
CLAIMING = Claiming(token=hex_128(0xAA))
ALLOCATED = Allocated(token=hex_128(0xAA), node=3, cluster_id=CLUSTER_ID, incarnation=5)
JOINING = Joining(token=hex_128(0xAA), node=3, cluster_id=CLUSTER_ID, previous=5, nonce=hex_128(0xBB))


def join_request(**fields):
    whole = Join(
        cluster_id=CLUSTER_ID,
        generation=4,
        token=hex_128(0xAA),
        node=3,
        name="n1",
        address="h:1",
        previous=5,
        nonce=hex_128(0xBB),
        session=START.session,
        protocol=1,
        applied=7,
        lineage=GENESIS,
        protocol_min=PROTOCOL_VERSION_MIN,
        capabilities=CAPABILITIES,
    )
    return msgspec.structs.replace(whole, **fields)


def learned(record, facts=FACTS):
    claim = Candidate(record, START)
    return claim, claim.step(ClusterLearned(facts=facts))


# ---------------------------------------------------------------- the rows of the table


def test_nothing_is_followed_by_claiming_with_the_fresh_token():
    claim, effect = learned(None)
    assert effect == WriteRecord(record=Claiming(token=START.token))
    asked = SendAllocate(request=Allocate(cluster_id=CLUSTER_ID, token=START.token, name="n1", address="h:1"))
    assert claim.step(RecordWritten()) == asked


def test_claiming_asks_with_the_token_it_holds():
    claim, effect = learned(CLAIMING)
    asked = Allocate(cluster_id=CLUSTER_ID, token=CLAIMING.token, name="n1", address="h:1")
    assert effect == SendAllocate(request=asked)
    written = Allocated(token=CLAIMING.token, node=3, cluster_id=CLUSTER_ID, incarnation=0)
    assert claim.step(IdAllocated(node=3)) == WriteRecord(record=written)
    joining = Joining(token=CLAIMING.token, node=3, cluster_id=CLUSTER_ID, previous=0, nonce=START.nonce)
    assert claim.step(RecordWritten()) == WriteRecord(record=joining)


def test_allocated_writes_joining_with_the_fresh_nonce():
    claim, effect = learned(ALLOCATED)
    joining = msgspec.structs.replace(JOINING, nonce=START.nonce)
    assert effect == WriteRecord(record=joining)
    assert claim.step(RecordWritten()) == SendJoin(request=join_request(nonce=START.nonce))


def test_joining_is_retried_with_its_own_nonce_and_ends_joined_once_that_is_durable():
    claim, effect = learned(JOINING)
    assert effect == SendJoin(request=join_request())
    finished = msgspec.structs.replace(ALLOCATED, incarnation=8, nonce=JOINING.nonce)
    assert claim.step(Admitted(incarnation=8)) == WriteRecord(record=finished)
    assert claim.step(RecordWritten()) == Joined(node=3, incarnation=8, token=JOINING.token)
    _, effect = learned(finished)
    asking = Joining(
        token=finished.token, node=3, cluster_id=CLUSTER_ID, previous=8, nonce=START.nonce, finished=JOINING.nonce
    )
    assert effect == WriteRecord(record=asking), "the next start names the attempt that led to what it knows"


@pytest.mark.parametrize("record", [ALLOCATED, JOINING])
def test_another_cluster_ends_the_claim_and_is_not_taken_for_ours(record):
    other = msgspec.structs.replace(FACTS, cluster_id="d" * 32)
    claim, effect = learned(record, other)
    assert effect == WrongCluster(ours=CLUSTER_ID, theirs="d" * 32)
    with pytest.raises(AssertionError):
        claim.step(RecordWritten())


def test_a_claim_that_owns_no_id_yet_may_meet_any_cluster():
    _, effect = learned(CLAIMING, msgspec.structs.replace(FACTS, cluster_id="d" * 32))
    assert isinstance(effect, SendAllocate)
    assert effect.request.cluster_id == "d" * 32


@pytest.mark.parametrize(
    ("record", "event"),
    [
        (None, RecordWritten()),
        (None, IdAllocated(node=1)),
        (CLAIMING, Admitted(incarnation=1)),
        (ALLOCATED, IdAllocated(node=4)),
        (JOINING, IdAllocated(node=4)),
        (JOINING, Admitted(incarnation=5)),
        (CLAIMING, RecordWritten()),
    ],
)
def test_an_event_out_of_turn_raises_and_changes_nothing(record, event):
    claim = Candidate(record, START)
    with pytest.raises(AssertionError):
        claim.step(event)
    assert claim.step(ClusterLearned(facts=FACTS)) == learned(record)[1]


def test_a_doubled_answer_raises_while_the_first_is_being_written():
    claim, _ = learned(CLAIMING)
    written = claim.step(IdAllocated(node=3))
    with pytest.raises(AssertionError):
        claim.step(IdAllocated(node=4))
    assert written.record.node == 3
    claim.step(RecordWritten())
    joining = claim.step(RecordWritten())
    assert joining.request.node == 3
    claim.step(Admitted(incarnation=1))
    with pytest.raises(AssertionError):
        claim.step(Admitted(incarnation=2))
    assert claim.step(RecordWritten()) == Joined(node=3, incarnation=1, token=CLAIMING.token)


# ---------------------------------------------------------------- every crash point, against the leader's decisions


class ToyLeader:
    """One transaction at a time, durable when it answers; leases that end when told to."""

    def __init__(self):
        self.cluster = ClusterRecord(cluster_id=CLUSTER_ID, generation=4, format_version=1)
        self.counters = CountersRecord(next_node=1, next_object=1, next_procedure=1, next_transaction=1)
        self.nodes = {}
        self.held = {}
        self.now_ns = 0

    def allocate(self, request):
        decision = decide_allocate(request, self.cluster, self.counters, self.nodes.values())
        match decision:
            case KnownToken(node=node):
                return node
            case Fresh(node=node, counters=counters):
                self.nodes[node.id], self.counters = node, counters
                return node.id
            case Reject():
                raise AssertionError(decision.code)

    def join(self, request):
        decision = decide_join(
            request,
            cluster=self.cluster,
            nodes=self.nodes.values(),
            history=JoinerHistory(latest=7, lineage_at_applied=GENESIS),
            held=self.held.get(request.node),
            first_bound_ns=None,
            alive_after_ns=3_000,
            now_ns=self.now_ns,
        )
        match decision:
            case Same(incarnation=incarnation):
                return incarnation
            case WaitUntil(bound_ns=bound_ns):
                self.now_ns = bound_ns
                return self.join(request)
            case Admit(node=node):
                self.nodes[node.id] = node
                # A lease at once, so that the next incarnation has to wait for its end.
                self.held[node.id] = HeldLease(
                    incarnation=node.incarnation,
                    session_hash=node.session_hash,
                    bound_ns=self.now_ns + 3_500,
                    applied=7,
                    closed=None,
                )
                return node.incarnation
            case Reject():
                raise AssertionError(decision.code)


def one_life(disk, leader, secrets, faults, name="n1"):
    """One process on what the disk holds; `faults` says what befalls each step. Answers `Joined`, or None: killed."""
    start = msgspec.structs.replace(START, name=name, session=next(secrets), token=next(secrets), nonce=next(secrets))
    claim = Candidate(disk.get("record"), start)
    effect = claim.step(ClusterLearned(facts=FACTS))
    while not isinstance(effect, Joined):
        fault = next(faults, "none")
        if fault == "killed before":
            return None
        match effect:
            case WriteRecord(record=record):
                disk["record"] = record
                event = RecordWritten()
            case SendAllocate(request=request):
                event = IdAllocated(node=leader.allocate(request))
                if fault in {"lost", "doubled"}:  # asked again with the same request, as after a lost answer
                    event = IdAllocated(node=leader.allocate(request))
            case SendJoin(request=request):
                event = Admitted(incarnation=leader.join(request))
                if fault in {"lost", "doubled"}:
                    event = Admitted(incarnation=leader.join(request))
        if fault == "killed after":
            return None
        effect = claim.step(event)
    return effect


def count_up():
    number = 1
    while True:
        yield hex_128(number)
        number += 1


FAULTS = st.lists(st.sampled_from(["none", "killed before", "killed after", "lost", "doubled"]), max_size=40)


@settings(max_examples=examples(300), deadline=None)
@given(first=FAULTS, second=FAULTS)
def test_any_crashes_and_lost_answers_lead_back_to_the_same_id(first, second):
    """INV-ID-3, and INV-ID-1 for a second node that registers in between."""
    leader, secrets = ToyLeader(), count_up()
    for name, faults in (("n1", iter(first)), ("n2", iter(second))):
        disk = {}
        joined, last, seen = None, 0, set()
        while joined is None:
            joined = one_life(disk, leader, secrets, faults, name)
            record = disk.get("record")
            seen |= {record.node} if isinstance(record, Allocated | Joining) else set()
        again = one_life(disk, leader, secrets, iter(()), name)
        assert seen | {again.node} == {joined.node}
        assert again.incarnation > joined.incarnation > last
        assert leader.nodes[joined.node].token_hash == hash_secret(disk["record"].token)
    assert sorted(leader.nodes) == [1, 2], "no id was lost on the way, none was given twice"
    assert leader.counters.next_node == 3


@pytest.mark.parametrize("crash", range(12))
@pytest.mark.parametrize("when", ["killed before", "killed after"])
def test_a_crash_at_each_step_of_the_first_start(crash, when):
    leader, secrets, disk = ToyLeader(), count_up(), {}
    first = one_life(disk, leader, secrets, iter(["none"] * crash + [when]))
    assert (first is None) == (crash < 6), "a first start has six steps"
    again = one_life(disk, leader, secrets, iter(()))
    assert again.node == 1
    assert list(leader.nodes) == [1]
    assert leader.nodes[1].incarnation == again.incarnation
    assert leader.held[1].closed is not SettledHow.SURRENDERED
