"""What the oracle hears of whole clusters beside their leases: ends of processes, reports, watches that lag, and nodes
that do not serve. Each is proven by production code that is broken on purpose.
"""

import asyncio

import msgspec
import pytest

from leasehold.core.lease.grantor import Grantor
from leasehold.core.lease.grants import RenewalReceived
from leasehold.core.words import keys
from leasehold.node.agent.projection import Projection
from leasehold.testing.availability import Availability
from leasehold.testing.news import Reported
from leasehold.testing.oracle import InvariantViolated, Oracle
from tests.sim.broken import refused_wrongly
from tests.sim.record_words import SECOND_NS
from tests.sim.test_invariants import change_the_catalog, live


class Refuses(Grantor):
    """Refuses the tenth renewal of each process for good, for no reason."""

    code = "SUPERSEDED"

    def step(self, event, now_ns):
        if isinstance(event, RenewalReceived) and event.renewal.request == 10:
            return (refused_wrongly(event.renewal, self.code),)
        return super().step(event, now_ns)


class Diverges(Refuses):
    code = "DIVERGED"


@pytest.mark.parametrize(("grantor", "words"), [(Refuses, "told that it is superseded"), (Diverges, "DIVERGED")])
def test_a_process_that_is_ended_for_no_reason_is_noticed(grantor, words):
    async def body(_cluster, _group):
        await asyncio.sleep(20)

    with pytest.raises(InvariantViolated, match=f"INV-ID-2 .*{words}"):
        live(body, grantor=grantor, supervised=True)


def test_what_nodes_report_is_followed_into_the_store(monkeypatch):
    async def body(cluster, group):
        await change_the_catalog(cluster, group)
        await cluster.wait_for(lambda: not cluster.store.page(keys.DROPPED, keys.DROPPED + b"\xff", None, 9).items)

    live(body)
    saw = Oracle.saw

    def as_of_an_older_one(self, news):
        is_report = isinstance(news, Reported)
        saw(self, msgspec.structs.replace(news, incarnation=news.incarnation - 1) if is_report else news)

    monkeypatch.setattr(Oracle, "saw", as_of_an_older_one)
    with pytest.raises(InvariantViolated, match=r"INV-ID-2 .* said by incarnations \[0\], the newest is 1"):
        live(body)


@pytest.mark.parametrize("how", ["cut_off_store", "pause"])
def test_what_a_coordinator_watches_lags_while_it_does_not_reach_the_store(how):
    heard = []

    async def follow(storage):
        async for batch in storage.watch(keys.WATCH_START, keys.WATCH_END, 1):
            heard.append(batch.revision)  # noqa: PERF401 it never ends

    async def body(cluster, group):
        old = cluster.leading
        group.create_task(follow(old.storage))
        await asyncio.sleep(1)
        getattr(old, how)()
        before = list(heard)
        assert before
        await cluster.sql("CREATE DATABASE d")
        assert cluster.leading is not old
        assert heard == before, "another leader wrote since"
        old.resume() if how == "pause" else old.heal_store()
        await asyncio.sleep(1)
        assert len(heard) > len(before)
        assert heard == sorted(set(heard))
        assert heard[-1] == cluster.watch.oracle.history.newest

    live(body, coordinators=3)


def test_a_node_that_reaches_the_leader_and_does_not_serve_is_noticed(monkeypatch):
    async def waits_for_ever(_self):
        await asyncio.Event().wait()

    async def break_it(cluster):
        leading, node = cluster.leading, cluster.nodes[0]
        next(one for one in cluster.coordinators if one is not leading).cut_off_store()
        await asyncio.sleep(20)
        monkeypatch.setattr(Projection, "settled", waits_for_ever)
        cluster.network.partition(node.name, leading.name)
        await asyncio.sleep(30)
        cluster.network.heal_all()

    async def body(cluster, group):
        group.create_task(break_it(cluster))
        with pytest.raises(InvariantViolated, match=r"n1 has joined and serves nothing for 15 s, c. leads") as caught:
            await Availability(cluster, cluster.watch.oracle).run()
        assert caught.value.invariant == "LIVENESS"
        assert caught.value.real_ns > 65 * SECOND_NS, "while it could not reach the leader, nothing was counted"

    live(body, coordinators=3)


def test_a_leader_that_stands_still_disturbs_its_cluster_and_one_that_follows_does_not():
    async def body(cluster, _group):
        disturbed_ns = cluster.watch.oracle.disturbances.lasted_ns
        follower = next(one for one in cluster.coordinators if one is not cluster.leading)
        for paused, expected_ns in ((follower, 0), (cluster.leading, SECOND_NS)):
            began_ns = cluster.loop.now_ns()
            paused.pause()
            await asyncio.sleep(1)
            paused.resume()
            assert disturbed_ns(began_ns, cluster.loop.now_ns()) == expected_ns

    live(body, coordinators=3)
