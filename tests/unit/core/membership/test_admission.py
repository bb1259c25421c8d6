"""What the leader decides about ids and joins, answer by answer; nothing changes before everything is validated."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.lease.grants import HeldLease
from leasehold.core.lease.process_end import end_hash, end_proof
from leasehold.core.membership.admission import (
    REQUIRED_CAPABILITIES,
    Admit,
    Adopt,
    AdoptAsked,
    Fresh,
    JoinerHistory,
    KnownToken,
    Same,
    WaitUntil,
    closing,
    decide_adopt,
    decide_allocate,
    decide_give_up,
    decide_join,
    spoken_protocol,
)
from leasehold.core.membership.identity import CAPABILITIES, hash_secret
from leasehold.core.membership.rejections import Reject
from leasehold.core.words.messages import Allocate, AskIncarnation
from leasehold.core.words.records import CountersRecord, SettledHow
from leasehold.limits.membership import GIVEN_UP_AT_ONCE, NODE_IDS_MAX, NODES_MAX, UNJOINED_KEPT_NS
from tests.few import examples
from tests.unit.core.catalog_words import CLUSTER, hex_128, node
from tests.unit.core.join_words import LINEAGE, NONCE, SESSION, TOKEN, request_to_join

COUNTERS = CountersRecord(next_node=5, next_object=1, next_procedure=1, next_transaction=1)
MINE = node(3, incarnation=5, token_hash=hash_secret(TOKEN))


def allocate(nodes=(), **fields):
    request = Allocate(cluster_id=CLUSTER.cluster_id, token=TOKEN, name="new", address="h:1")
    return decide_allocate(msgspec.structs.replace(request, **fields), CLUSTER, COUNTERS, nodes)


def code(decision):
    assert isinstance(decision, Reject)
    assert decision.text
    assert decision.hint
    return decision.code


# ---------------------------------------------------------------- ids


def test_a_fresh_token_gets_the_next_id_and_the_counter_moves_on():
    fresh = node(5, incarnation=0, name="new", address="h:1", token_hash=hash_secret(TOKEN))
    assert allocate() == Fresh(node=fresh, counters=msgspec.structs.replace(COUNTERS, next_node=6))


def test_a_known_token_gets_its_id_back_whatever_it_calls_itself_now():
    assert allocate([node(1), MINE], name="n1", address="other:1") == KnownToken(node=3)


def test_a_removed_token_is_rejected_for_ever():
    assert code(allocate([msgspec.structs.replace(MINE, removed=True)])) == "REMOVED"


def test_removed_nodes_leave_room_for_others():
    """Only living ids count: each removal makes room, however many there were."""
    removed = [node(number, removed=True) for number in range(1, 5 * NODES_MAX)]
    assert isinstance(allocate(removed), Fresh)
    living = [node(5 * NODES_MAX + number, name=f"x{number}") for number in range(NODES_MAX)]
    assert code(allocate([*removed, *living])) == "TOO_MANY_NODES"
    assert isinstance(allocate([*removed, *living[1:]]), Fresh)


def test_only_an_id_whose_node_never_joined_is_given_up_and_only_after_its_time():
    idle, joined, gone = node(1, incarnation=0), node(2, incarnation=1), node(3, incarnation=0, removed=True)
    nodes = {one.id: one for one in (idle, joined, gone)}
    since = dict.fromkeys(nodes, 7)
    assert decide_give_up(nodes, since, 7 + UNJOINED_KEPT_NS - 1) == ()
    assert decide_give_up(nodes, since, 7 + UNJOINED_KEPT_NS) == (idle,)
    assert decide_give_up(nodes, {}, UNJOINED_KEPT_NS) == ()
    many = {number: node(number, incarnation=0) for number in range(1, 2 * GIVEN_UP_AT_ONCE)}
    assert len(decide_give_up(many, dict.fromkeys(many, 0), UNJOINED_KEPT_NS)) == GIVEN_UP_AT_ONCE


def test_a_node_that_comes_after_its_id_was_given_up_is_told_so_at_each_step():
    late = node(3, incarnation=0, token_hash=hash_secret(TOKEN), removed=True)
    for decision in (allocate([late]), join(record=late, previous=0)):
        assert code(decision) == "REMOVED"
        assert "within 10 minutes" in decision.text


def test_the_name_of_a_removed_node_is_free_but_not_its_id():
    answer = allocate([node(4, removed=True, name="new")])
    assert isinstance(answer, Fresh)
    assert answer.node.id == 5


@pytest.mark.parametrize(
    ("fields", "nodes", "expected"),
    [
        ({"cluster_id": "d" * 32}, [], "OTHER_CLUSTER"),
        ({"token": "short"}, [], "BAD_TOKEN"),
        ({"token": TOKEN.replace("0", "G")}, [], "BAD_TOKEN"),
        ({"name": ""}, [], "BAD_NAME"),
        ({"name": "a b"}, [], "BAD_NAME"),
        ({"name": "n" * 64}, [], "BAD_NAME"),
        ({"name": "7"}, [], "BAD_NAME"),
        ({"name": "n1"}, [node(1)], "NAME_TAKEN"),
        ({}, [node(number) for number in range(1, NODES_MAX + 1)], "TOO_MANY_NODES"),
        ({}, [node(number, removed=True) for number in range(1, NODE_IDS_MAX + 1)], "TOO_MANY_NODES"),
    ],
)
def test_what_is_wrong_with_a_request_for_an_id(fields, nodes, expected):
    assert code(allocate(nodes, **fields)) == expected


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=40))
def test_an_id_belongs_to_one_token_for_ever(requests):
    """INV-ID-1, with tokens asked for again and nodes removed in between."""
    counters, nodes, owner = COUNTERS, {}, {}
    for number, remove in requests:
        request = Allocate(cluster_id=CLUSTER.cluster_id, token=hex_128(number), name=f"n-{number}", address="h:1")
        answer = decide_allocate(request, CLUSTER, counters, nodes.values())
        match answer:
            case KnownToken(node=known):
                assert owner[known] == number
            case Fresh(node=fresh):
                assert fresh.id not in owner
                assert answer.counters.next_node == counters.next_node + 1 > fresh.id
                owner[fresh.id], nodes[fresh.id], counters = number, fresh, answer.counters
            case Reject():
                assert answer.code == "REMOVED"
        if remove:
            for one in [one for one, token in owner.items() if token == number]:
                nodes[one] = msgspec.structs.replace(nodes[one], removed=True)


# ---------------------------------------------------------------- joins


def join(*, record=MINE, others=(), held=None, first=None, now=10_000, history=None, required=frozenset(), **fields):
    return decide_join(
        request_to_join(**fields),
        cluster=CLUSTER,
        nodes=[record, *others],
        history=history or JoinerHistory(latest=9, lineage_at_applied=LINEAGE),
        held=held,
        first_bound_ns=first,
        alive_after_ns=3_000,
        now_ns=now,
        required=required,
    )


def lease(bound_ns, closed=None):
    return HeldLease(incarnation=5, session_hash=b"s", bound_ns=bound_ns, applied=7, closed=closed)


def admitted(incarnation, record=MINE, *, nonce=NONCE, **fields):
    after = msgspec.structs.replace(
        record,
        address="elsewhere:1",
        incarnation=incarnation,
        nonce=nonce,
        session_hash=hash_secret(SESSION),
        end_hash=end_hash(end_proof(request_to_join().token, SESSION)),
        **fields,
    )
    return Admit(node=after, previous=record)


@pytest.mark.parametrize(
    "held",
    [
        None,
        lease(10_000),
        lease(9_999),
        *(lease(99_000, how) for how in (SettledHow.SURRENDERED, SettledHow.FENCED, SettledHow.ENDED)),
    ],
)
def test_a_join_is_admitted_once_the_lease_before_it_has_ended(held):
    assert join(held=held) == admitted(6)


def test_a_join_brings_name_address_and_rack_along():
    assert join(name="renamed", rack="r.1") == admitted(6, name="renamed", rack="r.1")
    there = msgspec.structs.replace(MINE, rack="r.1", draining=True)
    assert join(record=there) == Admit(node=admitted(6, draining=True).node, previous=there), "a drain goes on"


def test_a_join_waits_for_the_lease_before_it():
    assert join(held=lease(10_001)) == WaitUntil(bound_ns=10_001)
    assert join(held=lease(10_001), first=9_000) == WaitUntil(bound_ns=10_001)


def test_a_lease_that_is_renewed_while_a_join_waits_for_it_belongs_to_the_original():
    assert join(held=lease(13_000), first=10_000) == WaitUntil(bound_ns=13_000)
    assert code(join(held=lease(13_001), first=10_000)) == "ALIVE_ELSEWHERE"


def asked_before(session=SESSION):
    return msgspec.structs.replace(MINE, incarnation=6, nonce=NONCE, session_hash=hash_secret(session))


def test_asking_again_in_the_same_process_is_answered_the_same():
    assert join(record=asked_before()) == Same(incarnation=6)
    assert join(record=asked_before(), held=lease(99_000)) == Same(incarnation=6), "it does not wait for itself"


def test_the_same_attempt_by_the_next_process_raises_the_incarnation_once_more():
    earlier = asked_before(session=hex_128(9))
    assert join(record=earlier) == admitted(7, earlier)
    assert join(record=earlier, held=lease(10_001)) == WaitUntil(bound_ns=10_001)


def test_a_late_copy_of_an_attempt_does_not_make_its_directory_a_stale_one():
    """The dead process's request came after that of the next one: it raised the incarnation, and nobody got it."""
    raised = asked_before(session=hex_128(9))
    later = {"previous": raised.incarnation - 1, "nonce": hex_128(0xD1), "finished": NONCE}
    assert join(record=raised, **later) == admitted(raised.incarnation + 1, raised, nonce=hex_128(0xD1))
    assert code(join(record=raised, **{**later, "finished": hex_128(0xD2)})) == "STALE_COPY"
    assert code(join(record=raised, **{**later, "finished": None})) == "STALE_COPY"


@pytest.mark.parametrize("previous", [0, 4, 6])
def test_a_directory_that_is_not_at_the_newest_incarnation_is_a_copy(previous):
    assert code(join(previous=previous)) == "STALE_COPY"


def test_a_copy_is_refused_at_once_and_not_made_to_wait():
    assert code(join(previous=4, held=lease(99_000))) == "STALE_COPY"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cluster_id": "d" * 32}, "OTHER_CLUSTER"),
        ({"generation": 2}, "AHEAD_OF_CLUSTER"),
        ({"protocol": 3, "protocol_min": 2}, "OTHER_PROTOCOL"),
        ({"protocol": 0, "protocol_min": 0}, "OTHER_PROTOCOL"),
        ({"capabilities": ("Upper",)}, "BAD_CAPABILITIES"),
        ({"capabilities": ("c",) * 33}, "BAD_CAPABILITIES"),
        ({"capabilities": ("",)}, "BAD_CAPABILITIES"),
        ({"capabilities": ("leap",), "required": frozenset({"leap", "fly"})}, "LACKS_CAPABILITY"),
        ({"node": 8}, "UNKNOWN_NODE"),
        ({"token": hex_128(4)}, "WRONG_TOKEN"),
        ({"record": msgspec.structs.replace(MINE, removed=True)}, "REMOVED"),
        ({"nonce": "short"}, "BAD_NONCE"),
        ({"session": "short"}, "BAD_NONCE"),
        ({"name": "-"}, "BAD_NAME"),
        ({"name": "0042"}, "BAD_NAME"),
        ({"rack": "a b"}, "BAD_NAME"),
        ({"rack": "r" * 64}, "BAD_NAME"),
        ({"name": "n1", "others": [node(1)]}, "NAME_TAKEN"),
        ({"applied": 10}, "AHEAD_OF_CLUSTER"),
        ({"lineage": b"X" * 32}, "DIVERGED"),
    ],
)
def test_what_is_wrong_with_a_join_is_said_before_anything_changes(fields, expected):
    assert code(join(**fields)) == expected
    assert code(join(held=lease(99_000), **fields)) == expected, "nor does it wait first"


@pytest.mark.parametrize("entered", [{"member": True}, {"left": True}])
def test_a_copy_of_an_unfinished_attempt_is_a_stale_one_once_the_attempt_has_led_in(entered):
    """Whoever has entered had its incarnation in its own directory, where the attempt was finished."""
    record = msgspec.structs.replace(asked_before(session=hex_128(9)), **entered)
    assert code(join(record=record)) == "STALE_COPY"
    assert code(join(record=record, nonce=hex_128(0xD1), finished=NONCE)) == "STALE_COPY"
    assert code(join(record=record, held=lease(10_001))) == "STALE_COPY", "nor does it wait first"
    own = {"previous": record.incarnation, "nonce": hex_128(0xD1), "finished": NONCE}
    assert isinstance(join(record=record, **own), Admit)


def test_a_name_that_passes_for_a_number_is_kept_by_who_has_it_alone():
    """`leasehold node remove 7` is about node 7, unless an older version has let a node have that name."""
    numbered = msgspec.structs.replace(MINE, name="7")
    assert join(name="7", record=numbered) == admitted(6, numbered)


def test_a_history_that_can_not_be_read_any_more_is_left_to_the_watch():
    assert join(history=JoinerHistory(latest=9, lineage_at_applied=None), lineage=b"X" * 32) == admitted(6)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, False),
        (lease(1), True),
        (lease(1, SettledHow.FENCED), False),
        (lease(1, SettledHow.SURRENDERED), False),
    ],
)
def test_only_an_open_incarnation_is_closed(held, expected):
    assert closing(held) is expected


def test_a_join_tells_what_its_program_can_do_and_leaves_the_logical_topology():
    member = msgspec.structs.replace(MINE, member=True, left=True, capabilities=("old",))
    after = admitted(6, member, member=False, left=False, capabilities=("fly", "leap"))
    required = frozenset({"leap"})
    assert join(record=member, capabilities=("leap", "fly", "leap"), required=required) == after


def test_this_program_can_do_what_is_required():
    assert join(capabilities=CAPABILITIES, required=REQUIRED_CAPABILITIES) == admitted(
        6, capabilities=tuple(sorted(CAPABILITIES))
    )
    assert code(join(capabilities=CAPABILITIES[1:], required=REQUIRED_CAPABILITIES)) == "LACKS_CAPABILITY"


def test_the_protocol_that_is_spoken_is_the_newest_of_both():
    assert spoken_protocol(request_to_join(protocol_min=1, protocol=1)) == 1
    assert spoken_protocol(request_to_join(protocol_min=1, protocol=7)) == 1
    assert spoken_protocol(request_to_join(protocol_min=2, protocol=7)) is None
    refusal = join(protocol_min=2, protocol=7)
    assert "2 to 7" in refusal.text
    assert "1 to 1" in refusal.text


# ---------------------------------------------------------------- adopting an older copy


def adopt(*, record=MINE, held=None, connected=False, first=None, now=10_000, **fields):
    request = AskIncarnation(cluster_id=CLUSTER.cluster_id, token=TOKEN, node=3)
    return decide_adopt(
        msgspec.structs.replace(request, **fields),
        cluster=CLUSTER,
        node=record,
        held=held,
        connected=connected,
        first=first,
        alive_after_ns=3_000,
        now_ns=now,
    )


@pytest.mark.parametrize("held", [None, lease(10_000), lease(99_000, SettledHow.SURRENDERED)])
def test_a_copy_may_take_the_place_of_a_node_that_does_not_live(held):
    assert adopt(held=held) == Adopt(node=MINE)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cluster_id": "d" * 32}, "OTHER_CLUSTER"),
        ({"record": None}, "UNKNOWN_NODE"),
        ({"token": hex_128(4)}, "WRONG_TOKEN"),
        ({"record": msgspec.structs.replace(MINE, removed=True)}, "REMOVED"),
    ],
)
def test_who_may_not_adopt_is_told_at_once(fields, expected):
    assert code(adopt(**fields)) == expected
    assert code(adopt(held=lease(99_000), connected=True, **fields)) == expected, "nor does it wait first"


def test_an_adoption_waits_for_the_lease_and_for_the_session():
    first = AdoptAsked(since_ns=9_000, bound_ns=10_500)
    assert adopt(held=lease(10_001)) == WaitUntil(bound_ns=10_001)
    assert adopt(held=lease(13_500), first=first) == WaitUntil(bound_ns=13_500)
    assert adopt(connected=True) == WaitUntil(bound_ns=10_000)
    assert adopt(connected=True, first=first, now=12_000) == WaitUntil(bound_ns=12_000)


def test_a_node_that_keeps_its_lease_or_its_session_is_alive_elsewhere():
    first = AdoptAsked(since_ns=9_000, bound_ns=10_500)
    assert code(adopt(held=lease(13_501), first=first)) == "ALIVE_ELSEWHERE"
    assert code(adopt(connected=True, first=first, now=12_001)) == "ALIVE_ELSEWHERE"
