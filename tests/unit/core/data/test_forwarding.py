"""Which peers a write waits for."""

import pytest

from leasehold.core.data.forwarding import Judgement, judge, judge_probed, patience_ns, probe_delay_ns
from leasehold.core.data.peers import Peers, Probed
from leasehold.core.data.write_access import Peer
from leasehold.core.words.messages import NodeStatus
from leasehold.limits.replication import (
    FORWARD_PATIENCE_MAX_NS,
    FORWARD_PATIENCE_MIN_NS,
    FORWARD_PROBE_DELAY_NS,
    FORWARD_SLOWER,
)
from leasehold.wire.steps import ThreadRuntime, run


@pytest.mark.parametrize(
    ("others", "min_in_sync", "judgement"),
    [(1, 1, Judgement.PROBE), (1, 2, Judgement.WAIT), (2, 2, Judgement.PROBE)],
)
def test_a_late_peer_is_probed_unless_it_is_needed(others, min_in_sync, judgement):
    assert judge(others=others, min_in_sync=min_in_sync, expired=False) is judgement
    assert judge(others=others, min_in_sync=min_in_sync, expired=True) is Judgement.LEAVE_OUT


def status(*, lease_ns, revision):
    return NodeStatus(
        id=2, name="", address="", incarnation=1, state="", applied_revision=revision, lease_remaining_ns=lease_ns
    )


@pytest.mark.parametrize(
    ("probed", "admitted", "not_admitted"),
    [
        (Probed(is_answering=False), Judgement.LEAVE_OUT, Judgement.LEAVE_OUT),
        (Probed(is_answering=True), Judgement.WAIT, Judgement.LEAVE_OUT),
        (Probed(True, status(lease_ns=1, revision=7)), Judgement.WAIT, Judgement.WAIT),
        (Probed(True, status(lease_ns=1, revision=8)), Judgement.WAIT, Judgement.WAIT),
        (Probed(True, status(lease_ns=1, revision=6)), Judgement.WAIT, Judgement.LEAVE_OUT),
        (Probed(True, status(lease_ns=1, revision=None)), Judgement.WAIT, Judgement.LEAVE_OUT),
        (Probed(True, status(lease_ns=0, revision=7)), Judgement.WAIT, Judgement.LEAVE_OUT),
    ],
)
def test_a_late_peer_is_waited_for_if_it_takes_the_file_or_says_that_it_can(probed, admitted, not_admitted):
    assert judge_probed(probed, admitted_before=True, admitted=True, revision=7) is admitted
    assert judge_probed(probed, admitted_before=False, admitted=False, revision=7) is not_admitted
    assert judge_probed(probed, admitted_before=False, admitted=True, revision=7) is Judgement.WAIT


def test_patience_grows_with_what_the_node_itself_took():
    assert patience_ns(0) == FORWARD_PATIENCE_MIN_NS
    assert patience_ns(FORWARD_PATIENCE_MIN_NS) == FORWARD_SLOWER * FORWARD_PATIENCE_MIN_NS
    assert patience_ns(FORWARD_PATIENCE_MAX_NS) == FORWARD_PATIENCE_MAX_NS


def test_a_peer_that_has_not_said_that_it_takes_the_file_is_probed_early():
    assert probe_delay_ns(FORWARD_PATIENCE_MAX_NS, admitted=True) == FORWARD_PATIENCE_MAX_NS
    assert probe_delay_ns(FORWARD_PATIENCE_MAX_NS, admitted=False) == FORWARD_PROBE_DELAY_NS


def test_a_peer_gets_nothing_from_its_silence_to_its_answer():
    one, three, answering = Peer(1, "one:1", "one"), Peer(3, "three:1", "three"), set()

    class Calls:
        async def is_answering(self, peer, timeout_ns):
            return peer.name in answering

    class AtOnce(ThreadRuntime):
        def start(self, work, *, name, daemon=False):
            run(work)

    peers = Peers(AtOnce(lambda: 0), Calls(), probes_max=0)
    peers.left_out(three)
    assert run(peers.worth_a_try([one, three], 1)) == [one]
    answering.add("three")
    assert run(peers.worth_a_try([one, three], 1)) == [one, three]
    peers.left_out(one)
    answering.add("one")
    assert run(peers.worth_a_try([one, three], 1)) == [one, three]


def test_a_peer_that_is_back_at_another_address_gets_bytes_though_its_old_one_is_still_probed():
    before, after, probed = Peer(1, "one:1", "one"), Peer(1, "one:2", "one"), []

    class Calls:
        async def is_answering(self, peer, timeout_ns):
            probed.append(peer)
            return False

    class Later(ThreadRuntime):
        def start(self, work, *, name, daemon=False):
            works.append(work)

    works = []
    peers = Peers(Later(lambda: 0), Calls(), probes_max=1)
    peers.left_out(before)
    assert run(peers.worth_a_try([before], 1)) == []
    assert run(peers.worth_a_try([after], 1)) == [after]
    peers.left_out(after)
    assert run(peers.worth_a_try([after], 1)) == []
    assert probed == []
    for work in works:
        work.close()
