"""How coordinators come to know each other, and how nodes and clients learn of them."""

import asyncio

import msgspec
import pytest

from leasehold.core.membership.coordinators import CoordinatorReports
from leasehold.core.membership.proofs import with_proof
from leasehold.core.words.messages import ClusterFacts, ReportCoordinator, Rows, WhoAreYou
from leasehold.errors import Refused
from leasehold.ids import Revision
from leasehold.limits.membership import COORDINATOR_KEPT_NS, COORDINATOR_SILENT_NS, COORDINATORS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.testing.cluster import AT_LENGTH, SimulatedCluster
from tests.sim.coordinator_words import ask, execute, followers, run, simulate, the_leader


async def known(cluster: SimulatedCluster) -> dict[str, tuple[object, ...]]:
    """The answer to SHOW COORDINATORS, by name."""
    rows = await ask(cluster, the_leader(cluster), execute(cluster, "SHOW COORDINATORS"))
    assert isinstance(rows, Rows)
    assert rows.columns[:6] == ("name", "address", "role", "term", "applied_revision", "lag")
    return {str(row[0]): row[1:] for row in rows.rows}


def all_known(cluster: SimulatedCluster) -> bool:
    leader = cluster.leading
    return leader is not None and leader.leader is not None and len(leader.leader.catalog.coordinators) == 3


def test_all_report_themselves_and_one_that_falls_silent_is_forgotten():
    async def scenario(cluster: SimulatedCluster, group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await cluster.wait_for(lambda: all_known(cluster))
        shown = await known(cluster)
        assert sorted(str(row[1]) for row in shown.values()) == ["FOLLOWER", "FOLLOWER", "LEADER"]
        assert {row[0] for row in shown.values()} == set(cluster.addresses)
        assert {row[2] for row in shown.values()} == {1}
        for one in cluster.coordinators:
            facts = await ask(cluster, one, WhoAreYou())
            assert isinstance(facts, ClusterFacts)
            assert set(facts.coordinators) == set(cluster.addresses)
        gone = followers(cluster)[0]
        await gone.kill()
        await asyncio.sleep(COORDINATOR_SILENT_NS / SECOND_NS + 1)
        assert (await known(cluster))[gone.name][1:4] == ("SILENT", None, None)
        await asyncio.sleep(COORDINATOR_KEPT_NS / SECOND_NS + 10)
        assert set(await known(cluster)) == {one.name for one in cluster.coordinators} - {gone.name}
        await gone.start(group)
        await cluster.wait_for(lambda: all_known(cluster))
        assert (await known(cluster))[gone.name][1] == "FOLLOWER"

    simulate(scenario, nodes=2)


def test_the_next_leader_knows_them_too():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await cluster.wait_for(lambda: all_known(cluster))
        old = the_leader(cluster)
        await old.stop()
        await cluster.wait_for(lambda: cluster.leading is not None)
        await asyncio.sleep(COORDINATOR_SILENT_NS / SECOND_NS)
        shown = await known(cluster)
        assert sorted(str(row[1]) for row in shown.values()) == ["FOLLOWER", "LEADER", "SILENT"]
        assert shown[old.name][1] == "SILENT"

    simulate(scenario, nodes=2)


def test_a_report_without_the_cluster_key_writes_nothing():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await cluster.wait_for(lambda: all_known(cluster))
        leader = the_leader(cluster)
        facts = await ask(cluster, leader, WhoAreYou())
        assert isinstance(facts, ClusterFacts)
        report = ReportCoordinator(
            cluster_id=facts.cluster_id, address="stranger:1", name="", version="", applied=facts_revision(cluster)
        )
        wrong = msgspec.structs.replace(report, proof=bytes(32))
        for one in (report, wrong):
            with pytest.raises(Refused, match="cluster key"):
                await ask(cluster, leader, one)
        assert "stranger:1" not in await addresses(cluster)

    simulate(scenario, nodes=2)


def test_a_report_that_is_refused_leaves_nothing_at_the_leader():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await cluster.wait_for(lambda: all_known(cluster))
        noted: list[str] = []

        async def reported(number: int) -> None:
            report = ReportCoordinator(
                cluster_id=facts.cluster_id, address=f"more{number}:1", name="", version="", applied=Revision(1)
            )
            await ask(cluster, the_leader(cluster), with_proof(report, cluster.keys))

        facts = await ask(cluster, the_leader(cluster), WhoAreYou())
        assert isinstance(facts, ClusterFacts)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CoordinatorReports, "take", lambda self, report, *_: noted.append(report.address))
            for number in range(COORDINATORS_MAX - len(cluster.addresses)):
                await reported(number)
            assert noted
            with pytest.raises(Refused, match="coordinators already"):
                await reported(COORDINATORS_MAX)
        assert f"more{COORDINATORS_MAX}:1" not in noted

    simulate(scenario, nodes=2)


def facts_revision(cluster: SimulatedCluster):
    leading = the_leader(cluster).leader
    assert leading is not None
    return leading.catalog.revision


async def addresses(cluster: SimulatedCluster) -> set[object]:
    return {row[0] for row in (await known(cluster)).values()}


def test_a_client_that_knows_one_learns_of_the_others_and_goes_on_with_them():
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await cluster.wait_for(lambda: all_known(cluster))
        leader = the_leader(cluster)
        client = cluster.client(given=leader.address)
        await client.look_up(WhoAreYou(), ClusterFacts, AT_LENGTH)
        assert set(client.addresses) == set(cluster.addresses)
        assert client.addresses[0] == leader.address
        await leader.kill()
        facts = await client.look_up(WhoAreYou(), ClusterFacts, AT_LENGTH)
        assert facts.coordinators == tuple(sorted(cluster.addresses))

    simulate(scenario, nodes=2)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_node_that_was_given_one_address_joins_and_follows_the_next_leader(number: int):
    async def scenario(cluster: SimulatedCluster, _group: asyncio.TaskGroup) -> None:
        await run(cluster, "CREATE DATABASE d")
        await cluster.wait_for(lambda: all_known(cluster))
        await the_leader(cluster).kill()
        await cluster.wait_for(lambda: cluster.leading is not None)
        await run(cluster, "CREATE TABLE d.t (a INT)")
        await cluster.wait_for(
            lambda: all(node.published.view.revision >= facts_revision(cluster) for node in cluster.nodes)
        )

    simulate(scenario, nodes=2, given=(number,))
