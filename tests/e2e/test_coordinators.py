"""Several coordinators over a real store: what is felt when one of them, or a member of the store, fails.

All of it with etcd, and in `make soak` with ZooKeeper. In `make test`, docs/coordinators.md and tests/netns run
ZooKeeper, and its own suites hold the engine to the port.
"""

import json
import shutil
import signal
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold import connect
from leasehold.cli.config import coordinator_config
from leasehold.cli.shared_store import shared_store
from leasehold.client.cluster import Cluster
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import read_cluster_file
from leasehold.core.words.messages import Receipt, Rows, WaitingFor
from leasehold.error_codes import ErrorCode
from leasehold.errors import OutcomeUnknown, Unreachable
from leasehold.ids import StatementId
from leasehold.local.etcd import PROGRAM_VARIABLE
from leasehold.local.members import LocalMembers
from leasehold.metastorage.location import parse_location
from leasehold.metastorage.log.log import HEAD
from leasehold.metastorage.log.store import StoreDenied, Swap
from leasehold.wire.clock import BoottimeClock
from tests.e2e.cluster import RunningCluster
from tests.e2e.command import Ran, leasehold
from tests.e2e.several_coordinators import (
    DAMAGES,
    Busy,
    Reading,
    committed,
    declaring,
    hanging_leader,
    has_quorum,
    leader,
    present_leader,
    rows,
    tables,
)
from tests.e2e.waiting import wait_until
from tests.etcd_cluster import etcd_program
from tests.few import few

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=few(1, ["etcd", "zookeeper"]))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "etcd":
            patch.setenv(PROGRAM_VARIABLE, str(etcd_program()))
        directory = tmp_path_factory.mktemp("several") / "cluster"
        with RunningCluster.start(directory, nodes=2, coordinators=3, meta=request.param) as running:
            with running.connect() as client:
                client.sql("CREATE DATABASE d")
                client.sql("CREATE TABLE d.t (a INT)")
                client.table("d.t").append(pa.table({"a": pa.array(range(100), pa.int32())}))
            yield running


def test_it_begins_with_all_of_them_and_each_has_its_directory(cluster: RunningCluster) -> None:
    names = ["coordinator-1", "coordinator-2", "coordinator-3", "meta-1", "meta-2", "meta-3"]
    for name in names:
        assert cluster.local.node(name).running() is not None
    assert leader(cluster) in names
    leasehold("up", "--detach", directory=cluster.directory).refused(3, "RUNNING")
    leasehold("up", "--detach", "--coordinators", "1", directory=cluster.directory).refused(3, "OTHER_COORDINATORS")
    leasehold("up", "--detach", "--coordinators", "2", directory=cluster.directory).refused(2, "1, 3, 5")


async def test_who_lacks_the_password_gets_nothing_from_the_store(cluster: RunningCluster) -> None:
    clock = BoottimeClock()
    settings = LocalMembers(cluster.directory).settings()
    location = parse_location(settings["meta"])
    for address in location.endpoints:
        config = coordinator_config(None, {"dir": cluster.directory, "meta": settings["meta"]})
        stranger = shared_store(config, msgspec.structs.replace(location, endpoints=(address,)), clock)
        for refused in (stranger.get(HEAD), stranger.swap(Swap(unchanged={}, puts={HEAD: b""}))):
            with pytest.raises(StoreDenied, match=r"wants a user|does not grant"):
                await refused
        await stranger.close()


def test_the_password_is_in_its_file_alone(cluster: RunningCluster) -> None:
    password = Path(LocalMembers(cluster.directory).settings()["meta_password_file"])
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    told = [path.read_text() for path in cluster.directory.glob("*/log")]
    assert len(told) == 8
    assert not any(password.read_text() in text for text in told)


def test_one_address_is_enough_to_find_the_others(cluster: RunningCluster) -> None:
    coordinators = read_cluster_file(cluster.directory).coordinators

    def shown() -> dict[object, tuple[object, ...]]:
        with cluster.connect() as client:
            answer = client.sql("SHOW COORDINATORS")
        assert isinstance(answer, Rows)
        return {row[0]: row[1:] for row in answer.rows}

    wait_until(lambda: sorted(str(row[1]) for row in shown().values()) == ["FOLLOWER", "FOLLOWER", "LEADER"])
    assert {name: row[0] for name, row in shown().items()} == coordinators
    name = present_leader(cluster)
    with connect(coordinators[name]) as client:
        assert client.table("d.t").scan().read_all().num_rows == 100
        assert set(client.addresses) == set(coordinators.values())
        cluster.kill(name)
        client.sql("CREATE TABLE d.found (a INT)", timeout=60)
    cluster.restart(name)


def test_a_time_names_the_same_rows_under_the_next_leader(cluster: RunningCluster) -> None:
    with cluster.connect() as client:
        client.sql("CREATE TABLE d.past (a INT)", timeout=60)
        table, row = client.table("d.past"), pa.table({"a": pa.array([1], pa.int32())})
        table.append(row, timeout=60)
        noted = datetime.now(UTC)
        table.append(row, timeout=60)
        name = present_leader(cluster)
        cluster.kill(name)
        table.append(row, timeout=60)
        assert table.scan(as_of=noted).read_all().num_rows == 1
        assert table.scan(as_of=datetime.now(UTC)).read_all().num_rows == 3
    cluster.restart(name)


def test_each_leader_is_killed_in_turn_and_statements_go_on(cluster: RunningCluster) -> None:
    killed: list[str] = []
    for number in range(2):
        name = present_leader(cluster)
        cluster.kill(name)
        killed.append(name)
        committed(cluster, f"CREATE TABLE d.after_kill_{number} (a INT)")
        assert rows(cluster) == 100
        cluster.restart(name)
    assert len(set(killed)) == 2


@pytest.mark.long
def test_each_coordinator_is_killed_in_turn_while_statements_and_commits_run(cluster: RunningCluster) -> None:
    committed(cluster, "CREATE TABLE d.busy (batch INT)")
    committed(cluster, "CREATE DATABASE turns")

    def append(client: Cluster, number: int) -> None:
        rows = pa.table({"batch": pa.array([number] * 10, pa.int32())})
        client.table("d.busy").append(rows, timeout=60)

    both = [Busy(cluster, declaring("turns")), Busy(cluster, append)]
    for one in both:
        one.start()
    try:
        for name in read_cluster_file(cluster.directory).coordinators:
            cluster.kill(name)
            for one in both:
                one.wait_for_more(2)
            cluster.restart(name)
    finally:
        for one in both:
            one.end()
    statements, commits = (one.done for one in both)
    with cluster.connect() as client:
        batches = client.table("d.busy").scan().read_all()["batch"].to_pylist()
    assert tables(cluster, "turns") == {f"t{number}" for number in range(statements)}
    assert Counter(batches) == dict.fromkeys(range(commits), 10)
    assert leasehold("verify", "-o", "json", directory=cluster.directory).json()["stale_serves"] == 0


def test_questions_are_answered_while_nobody_leads(cluster: RunningCluster) -> None:
    committed(cluster, "CREATE TABLE d.asked_for (a INT)")
    for _ in range(5):  # on a slow machine another one may lead before all are answered
        name = present_leader(cluster)
        cluster.kill(name)
        with cluster.connect() as client:
            shown = client.sql("SHOW TABLES IN d")
            assert client.table("d.asked_for").schema.names == ["a"]
            assert client.table("d.t").scan().read_all().num_rows == 100
        nobody_led = leader(cluster) is None
        cluster.restart(name)
        if nobody_led:
            break
    assert nobody_led
    assert isinstance(shown, Rows)
    assert "asked_for" in [row[1] for row in shown.rows]
    committed(cluster, "DROP TABLE d.asked_for")


def test_an_operator_moves_the_leadership(cluster: RunningCluster) -> None:
    def transfer(*words: str) -> Ran:
        return leasehold("leader", "transfer", *words, directory=cluster.directory)

    addresses = read_cluster_file(cluster.directory).coordinators
    old = present_leader(cluster)
    chosen, third = (name for name in addresses if name != old)
    told = transfer(chosen, "-o", "json").json()
    assert (told["leader"], told["address"]) == (chosen, addresses[chosen])
    assert 0 < told["elapsed_ms"] < 5_000
    assert present_leader(cluster) == chosen
    committed(cluster, "CREATE TABLE d.after_transfer (a INT)")
    transfer(chosen).refused(3, "LEADS_ALREADY")
    transfer("coordinator-9").refused(3, "NOT_FOUND", "coordinator-1")
    cluster.kill(third)
    transfer(third).refused(5, "UNREACHABLE")
    assert present_leader(cluster) == chosen
    assert transfer().out.startswith(f"{old} leads term {told['term'] + 1} now")
    cluster.restart(third)
    assert rows(cluster) == 100


def test_a_leader_that_is_told_to_stop_gives_its_term_up_and_another_one_leads(cluster: RunningCluster) -> None:
    name = present_leader(cluster)
    with cluster.connect() as client:
        term = client.status().term
    stopped = cluster.local.node(name)
    stopped.signal(signal.SIGTERM)
    assert stopped.wait_until_gone()
    assert f"handed over term {term}" in stopped.log.read_text()
    committed(cluster, "CREATE TABLE d.after_sigterm (a INT)")
    logs = [one.log.read_text() for one in cluster.local.coordinators()]
    assert sum(f"elected after term {term}, which was given up" in text for text in logs) == 1
    cluster.restart(name)
    assert rows(cluster) == 100


def test_a_paused_leader_is_followed_and_does_no_harm_when_it_goes_on(cluster: RunningCluster) -> None:
    name = present_leader(cluster)
    cluster.pause(name)
    committed(cluster, "CREATE TABLE d.after_pause (a INT)")
    cluster.resume(name)
    wait_until(lambda: "is on standby" in cluster.local.node(name).log.read_text())
    assert leader(cluster) != name
    committed(cluster, "DROP TABLE d.after_pause")
    assert rows(cluster) == 100


def test_a_leader_that_hangs_but_answers_pings_is_left(cluster: RunningCluster) -> None:
    """Sooner than a call ends that has no answer: after 30 s."""
    with cluster.connect() as knowing, cluster.connect() as new, hanging_leader(cluster):
        for number, client in enumerate((knowing, new)):
            client.sql(f"CREATE TABLE d.hangs_{number} (a INT)", timeout=25)
            assert client.table("d.t").scan().read_all().num_rows == 100


def test_one_member_of_the_store_may_fail(cluster: RunningCluster) -> None:
    for name in ("meta-1", "meta-2", "meta-3"):
        cluster.kill(name)
        committed(cluster, f"CREATE TABLE d.without_{name.replace('-', '_')} (a INT)")
        cluster.restart(name)


@pytest.mark.long  # test_lost_members.py has it without load
def test_a_member_of_the_store_that_lost_its_data_comes_back_and_counts_again(cluster: RunningCluster) -> None:
    committed(cluster, "CREATE DATABASE losses")
    busy = Busy(cluster, declaring("losses"))
    busy.start()
    try:
        cluster.kill("meta-2")
        shutil.rmtree(cluster.directory / "meta-2")
        busy.wait_for_more(2)
        back = leasehold("chaos", "start", "meta-2", directory=cluster.directory, timeout=120)
        assert back.code == 0, back.err
        busy.wait_for_more(2)
        cluster.kill("meta-1")
        busy.wait_for_more(2)
        assert leasehold("up", "--detach", directory=cluster.directory, timeout=120).code == 0
        busy.wait_for_more(2)
    finally:
        busy.end()
    assert tables(cluster, "losses") == {f"t{number}" for number in range(busy.done)}


def test_without_a_quorum_nothing_is_decided_and_all_goes_on_by_itself(cluster: RunningCluster) -> None:
    members, drop = ("meta-1", "meta-2"), "DROP TABLE d.in_flight"
    committed(cluster, "CREATE TABLE d.in_flight (a INT)")
    waits_for, reading = cluster.names()[1], Reading(cluster)
    before: list[int] = []

    def quorum_goes(_: WaitingFor) -> None:
        if not before:
            for name in members:
                cluster.kill(name)
            before.append(reading.scans)

    cluster.pause(waits_for)
    reading.start()
    with cluster.connect() as client, pytest.raises(OutcomeUnknown) as in_flight:
        client.within(5).sql(drop, on_wait=quorum_goes)
    cluster.resume(waits_for)
    statement = in_flight.value.statement_id
    assert statement is not None

    reading.join()
    assert reading.scans > before[0], "nodes serve while their leases last"
    assert reading.failed is not None
    assert reading.failed.code == ErrorCode.NO_REPLICA
    assert "has been fenced" in reading.failed.text

    wait_until(lambda: not has_quorum(cluster))
    new = "CREATE TABLE d.without_a_quorum (a INT)"
    told = leasehold("sql", "--timeout", "2s", new, directory=cluster.directory)
    told.refused(5, "NO_QUORUM", "nothing listens there", "leasehold chaos start meta-1")
    status = leasehold("status", "-o", "json", directory=cluster.directory)
    status.refused(5, "NO_QUORUM")
    roles = {one["name"]: one["role"] for one in json.loads(status.out)["coordinators"]}
    assert set(roles) == set(read_cluster_file(cluster.directory).coordinators)
    assert "LEADER" not in roles.values()
    with pytest.raises(Unreachable) as declined, reading.client as knowing:
        knowing.within(2).sql(new)
    assert declined.value.code == ErrorCode.NO_QUORUM

    for name in members:
        cluster.local.start(name)
    committed(cluster, new)
    with cluster.connect() as client:
        receipt = client.sql(drop, statement_id=StatementId(statement))
        shown = client.sql("SHOW TABLES IN d")
    assert isinstance(receipt, Receipt)
    assert receipt.outcome == "COMMITTED"
    assert isinstance(shown, Rows)
    assert "in_flight" not in [row[1] for row in shown.rows]
    cluster.wait_until_active()
    assert rows(cluster) == 100


def test_all_killed_at_once_lose_nothing(cluster: RunningCluster) -> None:
    committed(cluster, "CREATE DATABASE all_killed")
    committed(cluster, "CREATE TABLE d.all_killed (a INT)")

    def declare(client: Cluster, number: int) -> None:
        client.sql(f"CREATE TABLE all_killed.t{number} (a INT)", timeout=200)

    processes = [*cluster.local.coordinators(), *cluster.local.nodes(), *LocalMembers(cluster.directory).processes()]
    busy = Busy(cluster, declare)
    busy.start()
    try:
        busy.wait_for_more(2)
        with cluster.connect() as client:
            client.table("d.all_killed").append(pa.table({"a": pa.array(range(50), pa.int32())}))
        for one in processes:
            one.signal(signal.SIGKILL)
        for one in processes:
            one.wait_until_gone()
        cluster.local.up()
        cluster.wait_until_active()
        busy.wait_for_more(1)
    finally:
        busy.end()
    assert rows(cluster) == 100
    with cluster.connect() as client:
        shown = client.sql("SHOW TABLES IN all_killed")
        assert client.table("d.all_killed").scan().read_all().num_rows == 50
    assert isinstance(shown, Rows)
    assert {str(row[1]) for row in shown.rows} == {f"t{number}" for number in range(busy.done)}


def test_a_leader_whose_directory_is_deleted_ends_and_comes_back(cluster: RunningCluster) -> None:
    """It would else lead on with files that nobody can find, and no command would find its process."""
    name = present_leader(cluster)
    process = cluster.local.node(name).running()
    assert process is not None
    shutil.rmtree(cluster.local.node(name).directory)
    process.wait(60)
    committed(cluster, "CREATE TABLE d.beside_no_directory (a INT)")
    cluster.restart(name)
    assert rows(cluster) == 100


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_coordinator_with_a_damaged_directory_builds_its_replica_anew(
    cluster: RunningCluster, damage: Callable[[Path], None]
) -> None:
    """All that it answers then comes from a whole replica: it leads alone, and shows every table."""
    name = present_leader(cluster)
    cluster.kill(name)
    replica = cluster.local.node(name).directory / "meta.db"
    for log in (replica.with_name("meta.db-wal"), replica.with_name("meta.db-shm")):
        log.unlink(missing_ok=True)
    damage(replica)
    cluster.restart(name)
    committed(cluster, f"CREATE TABLE d.beside_{damage.__name__} (a INT)")
    with Coordinators(read_cluster_file(cluster.directory).coordinators[name]) as asked:
        alone = asked.sql("SHOW TABLES IN d")
    with cluster.connect() as client:
        together = client.sql("SHOW TABLES IN d")
    assert isinstance(alone, Rows)
    assert isinstance(together, Rows)
    assert alone.rows == together.rows
    assert f"beside_{damage.__name__}" in [row[1] for row in alone.rows]
