"""The weak points of node identity that the field knows, each at its exact point, against the production code.

I11 and I20 are in `test_identity_clusters.py`; I7 and I12 to I19 are about the data of replicas, and not here.
"""

import asyncio
import functools
import operator
from collections import defaultdict

import msgspec
import pytest

from leasehold.coordinator.stored_catalog import read_catalog
from leasehold.core.catalog.plan import put
from leasehold.core.membership.admission import decide_allocate
from leasehold.core.membership.identity import hash_secret
from leasehold.core.membership.rejections import Reject
from leasehold.core.words import keys
from leasehold.core.words.messages import Allocate, AllocateAnswer, Join, JoinAnswer
from leasehold.core.words.records import Allocated, Claiming
from leasehold.errors import Corrupt, Indefinite, Refused
from leasehold.ids import Incarnation, NodeId, Token
from leasehold.limits.clients import CALL_TIMEOUT_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.cluster import COORDINATOR
from leasehold.testing.requests import RequestFate
from leasehold.vault.store import SqliteVault
from leasehold.wire.entropy import SystemEntropy
from tests.scenarios.identity_words import (
    CLUSTER_ID,
    allocate,
    hex_128,
    identity,
    in_an_office,
    join,
    refusal,
    serving,
    simulate,
    stored,
)

# ---------------------------------------------------------------- I1: the answer to a successful apply is lost


def test_I1_a_lost_answer_does_not_cost_the_id():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        lost = cluster.network.hold(COORDINATOR, node.name, lambda message: isinstance(message, AllocateAnswer))
        node.start(group)
        await asyncio.sleep(1)
        claimed = await identity(node)
        assert isinstance(claimed, Claiming), "the leader has given the id, the node does not know"
        assert (await stored(cluster)).counters.next_node == 2
        await asyncio.sleep(CALL_TIMEOUT_NS / SECOND_NS)
        cluster.network.release(lost)
        await serving(cluster, node)
        owned = await identity(node)
        assert (owned.node, owned.token) == (1, claimed.token), "the same token, and so the same id"
        assert (await stored(cluster)).counters.next_node == 2

    simulate(scenario)


@pytest.mark.parametrize("seed", range(8))
def test_I1_killed_anywhere_on_its_way_in_a_node_gets_the_same_id(seed):
    """INV-ID-3: on a slow disk, at random instants, again and again."""

    async def scenario(cluster, group):
        node, seen = cluster.nodes[0], set()
        node.disk.latency_ns = lambda: cluster.random.randrange(20 * MILLISECOND_NS)
        for _ in range(10):
            node.start(group)
            await asyncio.sleep(cluster.random.random() * cluster.random.choice((0.03, 0.1, 5)))
            await node.kill()
            node.disk.crash(cluster.random) if cluster.random.random() < 0.5 else None
            record = await identity(node)
            seen |= {record.token} if record is not None else set()
        node.start(group)
        await serving(cluster, node)
        record = await identity(node)
        assert isinstance(record, Allocated)
        assert seen <= {record.token}
        registered = (await stored(cluster)).nodes
        assert list(registered) == [record.node] == [1]
        assert registered[1].incarnation == record.incarnation

    simulate(scenario, seed=seed)


# ---------------------------------------------------------------- I2: many nodes start at once


@pytest.mark.parametrize("count", [8, 32])
def test_I2_nodes_that_start_at_once_get_an_id_each(count):
    async def scenario(cluster, group):
        for node in cluster.nodes:
            node.start(group)
        await serving(cluster, *cluster.nodes)
        owned = [(await identity(node)).node for node in cluster.nodes]
        assert sorted(owned) == list(range(1, count + 1))
        status = await cluster.status()
        assert {one.id: one.name for one in status.nodes} == {
            mine: node.name for mine, node in zip(owned, cluster.nodes, strict=True)
        }

    simulate(scenario, nodes=count)


def test_I2_in_one_transaction_each_token_gets_its_own_and_a_doubled_one_the_same():
    async def scenario(office):
        tokens = [1, 2, 3, 2, 1]
        answers = await office.ask(*(allocate(token, f"n{token}") for token in tokens))
        assert [one.node for one in answers] == [1, 2, 3, 2, 1]
        assert office.store.newest == 3, "election, first records, and one revision for all five"

    in_an_office(scenario)


# ---------------------------------------------------------------- I3: a weak code


def test_I3_two_nodes_alike_in_all_but_their_token_never_share_an_id():
    async def scenario(office):
        twins = await office.ask(allocate(1, "n1", "h:1"), allocate(2, "n2", "h:1"), allocate(3, "n1", "h:1"))
        assert [one.node for one in twins[:2]] == [1, 2], "one address, one instant"
        assert twins[2].code == "NAME_TAKEN"

    in_an_office(scenario)


def test_I3_tokens_sessions_and_nonces_are_drawn_and_made_of_nothing_that_two_nodes_could_share():
    """All start at one instant, from one address: each of the three is a draw of its own."""

    async def scenario(cluster, group):
        drawn, shown = [], defaultdict(set)
        draw = cluster.entropy.hex_128

        def noted():
            drawn.append(draw())
            return drawn[-1]

        def hear(_src, _dst, message):
            for name in ("token", "session", "nonce"):
                if isinstance(message, Allocate | Join) and hasattr(message, name):
                    shown[getattr(message, name)].add(name)

        cluster.entropy.hex_128, cluster.network.fate = noted, hear
        for node in cluster.nodes:
            node.start(group)
        await serving(cluster, *cluster.nodes)
        assert sorted(name for names in shown.values() for name in names) == [
            *["nonce"] * 3,
            *["session"] * 3,
            *["token"] * 3,
        ]
        assert len(shown) == 9, "none of them serves twice"
        assert set(shown) <= set(drawn)

    simulate(scenario, nodes=3)


def test_I3_what_is_drawn_has_128_bits_and_each_of_them_falls_both_ways():
    draws = [bytes.fromhex(SystemEntropy().hex_128()) for _ in range(100)]
    assert {len(one) for one in draws} == {16}
    numbers = [int.from_bytes(one) for one in draws]
    assert functools.reduce(operator.or_, numbers) == 2**128 - 1
    assert functools.reduce(operator.and_, numbers) == 0


# ---------------------------------------------------------------- I4: a cloned disk


def test_I4_a_copy_that_the_original_has_left_behind_is_refused():
    async def scenario(cluster, group):
        original, twin = cluster.nodes
        original.start(group)
        await serving(cluster, original)
        twin.disk, twin.calls_itself = original.disk.copy(), original.name
        await original.kill()
        original.start(group)
        await serving(cluster, original)
        assert await refusal(cluster, twin) == "STALE_COPY"
        assert original.guard()

    simulate(scenario, nodes=2)


@pytest.mark.parametrize("seed", range(6))
def test_I4_of_two_copies_started_together_one_serves_and_the_other_is_refused(seed):
    async def scenario(cluster, group):
        first, second = cluster.nodes
        first.start(group)
        await serving(cluster, first)
        await first.kill()
        second.disk, second.calls_itself = first.disk.copy(), first.name
        ends = {}

        for node in cluster.nodes:
            node.start(group, on_end=functools.partial(ends.__setitem__, node.name))
        await cluster.wait_for(lambda: ends and any(node.guard() for node in cluster.nodes))
        for _ in range(400):
            await asyncio.sleep(0.01)
            assert sum(node.guard() is not None for node in cluster.nodes) <= 1, "one live session per id"
        assert len(ends) == 1
        (error,) = ends.values()
        assert isinstance(error, Refused)
        assert error.code == "STALE_COPY"

    simulate(scenario, seed=seed, nodes=2)


def test_I4_the_token_is_shown_at_every_join():
    async def scenario(office):
        await office.ask(allocate(1))
        (thief,) = await office.ask(join(token=2, nonce=10, session=20))
        assert thief.code == "WRONG_TOKEN"
        assert office.writer.catalog.nodes[NodeId(1)].incarnation == 0

    in_an_office(scenario)


def test_I4_two_processes_of_one_attempt_in_one_transaction_leave_the_newer_one():
    """The older was killed and its request came late: both are decided before either is durable."""

    async def scenario(office):
        await office.ask(allocate(1))
        older, newer = await office.ask(join(nonce=10, session=20), join(nonce=10, session=21))
        assert (older, newer) == (JoinAnswer(incarnation=1), JoinAnswer(incarnation=2))
        held = office.grantor.held(NodeId(1))
        assert (held.incarnation, held.session_hash) == (2, hash_secret(hex_128(21)))

    in_an_office(scenario)


def test_I4_a_join_whose_asker_gave_up_is_heard_all_the_same():
    async def scenario(office):
        await office.ask(allocate(1))
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def before(request):
            if request == "txn":
                reached.set()
                await go_on.wait()
            return RequestFate.ANSWERED

        office.storage.before = before
        request = join(nonce=10, session=20)
        asking = asyncio.ensure_future(office.registration.join(request))
        await reached.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        go_on.set()
        assert await office.registration.join(request) == JoinAnswer(incarnation=1), "asked again: the same"
        assert office.grantor.held(NodeId(1)).incarnation == 1, "or its renewals would be refused as NOT_JOINED"

    in_an_office(scenario)


# ---------------------------------------------------------------- I5: an empty or torn file


def test_I5_a_node_whose_identity_is_damaged_does_not_start_and_takes_no_new_id():
    async def scenario(cluster, group):
        node = cluster.nodes[0]
        node.start(group)
        await serving(cluster, node)
        await node.kill()
        node.disk.damage()
        with pytest.raises(Corrupt):
            await node.run()
        assert (await stored(cluster)).counters.next_node == 2

    simulate(scenario)


@pytest.mark.parametrize("length", [0, 1, 100, 4096])
async def test_I5_a_torn_file_is_not_a_new_node(tmp_path, length):
    vault = await SqliteVault.open(tmp_path)
    await vault.write_identity(
        Allocated(token=Token(hex_128(1)), node=NodeId(12), cluster_id=CLUSTER_ID, incarnation=Incarnation(3))
    )
    await vault.close()
    path = tmp_path / "vault.db"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(Corrupt) as caught:
        vault = await SqliteVault.open(tmp_path)
        await vault.identity()
    assert caught.value.hint


# ---------------------------------------------------------------- I6: a left-over file


async def test_I6_there_is_one_record_and_what_else_lies_about_revives_nothing(tmp_path):
    owned = Allocated(token=Token(hex_128(1)), node=NodeId(12), cluster_id=CLUSTER_ID, incarnation=Incarnation(3))
    vault = await SqliteVault.open(tmp_path)
    await vault.write_identity(Claiming(token=Token(hex_128(2))))
    await vault.close()
    early = (tmp_path / "vault.db").read_bytes()
    vault = await SqliteVault.open(tmp_path)
    await vault.write_identity(owned)
    await vault.close()
    for name in ("vault.db.new", "vault.db.tmp", "vault.db.bak", "identity", "identity.tmp"):
        (tmp_path / name).write_bytes(early)
    vault = await SqliteVault.open(tmp_path)
    assert await vault.identity() == owned
    await vault.close()


async def test_I6_a_whole_vault_under_the_name_of_one_that_is_being_made_revives_nothing(tmp_path):
    vault = await SqliteVault.open(tmp_path)
    await vault.write_identity(Claiming(token=Token(hex_128(2))))
    await vault.close()
    (tmp_path / "vault.db").rename(tmp_path / "vault.db.new")
    vault = await SqliteVault.open(tmp_path)
    assert await vault.identity() is None
    await vault.close()
    assert not (tmp_path / "vault.db.new").exists()


# ---------------------------------------------------------------- I8: told success before it is true


def test_I8_of_two_that_want_one_name_one_is_told_success():
    async def scenario(office):
        answers = await office.ask(allocate(1), allocate(2))
        assert answers[0].node == 1
        assert answers[1].code == "NAME_TAKEN"
        assert list(office.writer.catalog.nodes) == [1]

    in_an_office(scenario)


@pytest.mark.parametrize("fate", [RequestFate.LOST_BEFORE, RequestFate.LOST_AFTER])
def test_I8_nobody_is_told_success_before_it_is_durable(fate):
    async def scenario(office):
        async def lose(request):
            return fate if request == "txn" else RequestFate.ANSWERED

        office.storage.before = lose
        (answer,) = await office.ask(allocate(1))
        assert isinstance(answer, Indefinite), "not an id, and not a refusal either"
        await asyncio.wait([office.life])

    with pytest.raises(BaseExceptionGroup) as caught:
        in_an_office(scenario)
    assert caught.group_contains(Indefinite)


# ---------------------------------------------------------------- I9: an id above the next one


def test_I9_nobody_can_bring_an_id_along():
    assert "node" not in Allocate.__struct_fields__, "an id is given, never asked for"

    async def scenario(office):
        (answer,) = await office.ask(join(node=7, nonce=10, session=20))
        assert answer.code == "UNKNOWN_NODE"
        given = await office.ask(*(allocate(token, f"n{token}") for token in range(1, 10)))
        assert [one.node for one in given] == list(range(1, 10))

    in_an_office(scenario)


# ---------------------------------------------------------------- I10: counters that go back


def test_I10_the_id_of_a_removed_node_is_never_given_again():
    async def scenario(office):
        await office.ask(allocate(1), allocate(2, "n2"))
        for number in (1, 2):
            record = office.writer.catalog.nodes[NodeId(number)]
            gone = msgspec.structs.replace(record, removed=True)
            await office.writer.submit(lambda _catalog, gone=gone: (put(keys.node(gone.id), gone),))
        answers = await office.ask(allocate(1), allocate(2, "n2"), allocate(3), join(nonce=10, session=20))
        assert [getattr(one, "code", None) for one in answers] == ["REMOVED", "REMOVED", None, "REMOVED"]
        assert answers[2].node == 3
        restarted = await read_catalog(office.storage)
        again = decide_allocate(allocate(2), restarted.cluster, restarted.counters, restarted.nodes.values())
        assert isinstance(again, Reject), "the tombstone is durable"

    in_an_office(scenario)
