"""One rule while nobody answers who could: a deadline that the caller gives, for whatever is asked."""

import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.append import stage
from leasehold.client.cluster import Cluster
from leasehold.client.scan import read_plan
from leasehold.client.table import Table
from leasehold.core.catalog.plan import put
from leasehold.core.data.asking import Asking
from leasehold.core.data.hedging import Ask, GiveUp, Hedging, Wait
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    ClusterFacts,
    CommitTransaction,
    Execute,
    Message,
    OpenTransaction,
    QueryPlan,
    TransactionFacts,
    WhoAreYou,
)
from leasehold.core.words.records import TransactionState
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, ExitCode, LeaseholdError, NotLeader, NotWritten, OutcomeUnknown, Unreachable
from leasehold.ids import ClusterId, Generation, NodeId, Revision, StatementId, Term, TransactionId
from leasehold.limits.units import SECOND_NS
from tests.unit.node.cluster import Cluster as Nodes
from tests.unit.node.cluster import cluster, rows

SHORT = 0.3
FACTS = ClusterFacts(cluster_id=ClusterId("c"), generation=Generation(1), term=Term(1), leader=True)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Nodes]:
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        yield made


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def hung() -> Generator[str]:
    """An address where a process takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


USES: dict[str, Callable[[Cluster, Table], object]] = {
    "scan": lambda _, table: table.scan(timeout=SHORT),
    "append": lambda _, table: table.append(pa.table({"k": [1]}), timeout=SHORT),
    "query": lambda cluster, _: cluster.query("SELECT * FROM d.t", timeout=SHORT),
    "insert": lambda cluster, _: cluster.sql("INSERT INTO d.t VALUES (1)", timeout=SHORT),
    "statement": lambda cluster, _: cluster.sql("CREATE DATABASE d", timeout=SHORT),
    "compact": lambda cluster, _: cluster.within(SHORT).compact("d.t"),
    "barriers": lambda cluster, _: cluster.within(SHORT).barriers(),
}


@pytest.mark.parametrize("where", ["nobody", "hung"])
@pytest.mark.parametrize("use", USES)
def test_every_use_ends_by_its_own_timeout_with_one_exit_code(
    use: str, where: str, two: Nodes, request: pytest.FixtureRequest
) -> None:
    """The cluster's own timeout is longer than the test may take."""
    address: str = request.getfixturevalue(where)
    with Cluster(address, timeout=10_000) as client, pytest.raises((Unreachable, NotWritten)) as caught:
        USES[use](client, Table(client, two.facts()))
    assert (caught.value.exit_code, caught.value.code) == (ExitCode.UNREACHABLE, "UNREACHABLE")
    assert f"no answer within {SHORT} s" in caught.value.text


def test_a_statement_that_was_sent_and_not_answered_is_unknown(nobody: str) -> None:
    with Cluster(nobody, timeout=SHORT) as client, pytest.raises(OutcomeUnknown) as caught:
        client.sql("CREATE DATABASE d", statement_id=StatementId("5" * 32))
    assert caught.value.statement_id == "5" * 32


class Hanging(Cluster):
    """A client whose coordinator says which cluster it is, and nothing else; keeps how long each call may take."""

    def __init__(self, **given: object) -> None:
        super().__init__("127.0.0.1:1", **given)  # pyright: ignore[reportArgumentType]
        self.asked: list[tuple[Message, int]] = []
        self._connection.call = self.answer

    async def answer(self, _address: str, request: Message, timeout_ns: int) -> Message:
        self.asked.append((request, timeout_ns))
        if isinstance(request, WhoAreYou):
            return FACTS
        raise Unreachable("it hangs")


def test_no_call_lasts_beyond_the_deadline() -> None:
    client = Hanging(timeout=SHORT)
    with pytest.raises(LeaseholdError):
        client.facts("d.t")
    with pytest.raises(OutcomeUnknown):
        client.sql("CREATE DATABASE d")
    assert all(timeout_ns <= SHORT * SECOND_NS for _, timeout_ns in client.asked)
    assert len({timeout_ns for _, timeout_ns in client.asked}) > 2, "what is left of it"


class Declining(Hanging):
    """A client whose write transactions are opened, and whose commits no coordinator takes."""

    async def answer(self, _address: str, request: Message, timeout_ns: int) -> Message:
        if isinstance(request, WhoAreYou):
            return FACTS
        if isinstance(request, OpenTransaction):
            return TransactionFacts(
                transaction=request.transaction, state=TransactionState.OPEN, rows=0, revision=Revision(1)
            )
        assert isinstance(request, CommitTransaction)
        raise NotLeader("it can't lead", hint="start them", cause=ErrorCode.NO_QUORUM)


def test_an_append_whose_commit_no_coordinator_takes_has_written_nothing(two: Nodes) -> None:
    client = Declining(timeout=SHORT)
    facts = two.facts()
    client.facts = lambda name: facts
    with pytest.raises(NotWritten, match="nothing was written") as declined:
        Table(client, facts).append(pa.table({"k": pa.array([], pa.int64())}))
    assert (declined.value.exit_code, declined.value.code) == (ExitCode.UNREACHABLE, ErrorCode.NO_QUORUM)
    assert declined.value.hint == "start them"
    with pytest.raises(OutcomeUnknown):  # an earlier attempt under the id may have been committed
        Table(client, facts).append(pa.table({"k": pa.array([], pa.int64())}), transaction=TransactionId("6" * 32))


def test_an_id_is_told_before_anything_is_sent_under_it(nobody: str, two: Nodes) -> None:
    told: list[str] = []
    client = Hanging(timeout=SHORT, on_new_id=told.append)
    with pytest.raises(OutcomeUnknown) as caught:
        client.sql("CREATE DATABASE d")
    sent = {request.statement for request, _ in client.asked if isinstance(request, Execute)}
    assert sent == {*told} == {caught.value.statement_id}
    with Cluster(nobody, timeout=SHORT, on_new_id=told.append) as away:
        with pytest.raises(Unreachable):
            away.sql("INSERT INTO d.t VALUES (1)")
        assert len(told) == 1, "nothing was sent, so there is nothing to ask for"
        facts = two.facts()
        away.facts = lambda name: facts
        with pytest.raises(NotWritten):
            away.sql("INSERT INTO d.t VALUES (1, 'x')")
        assert len(told) == 2
        with pytest.raises(OutcomeUnknown, match="no answer within"):
            away.sql("INSERT INTO d.t VALUES (1, 'x')", statement_id=StatementId("5" * 32))


def test_a_caller_is_told_that_it_is_asked_again_and_that_it_has_answered() -> None:
    told: list[tuple[str | None, float]] = []
    refusals = iter([NotLeader("it does not lead")])
    plan = QueryPlan(revision=Revision(1), plans=(), views=(), needed=())

    class Refusing(Hanging):
        async def answer(self, _address: str, request: Message, timeout_ns: int) -> Message:
            if isinstance(request, WhoAreYou):
                return FACTS
            for one in refusals:
                raise one
            return plan

    client = Refusing(on_retry=lambda error, left_s: told.append((error and error.code, left_s)))
    assert client.plan_query(()) == plan
    assert [code for code, _ in told] == ["NOT_LEADER", None]
    assert 29 < told[0][1] <= 30


# ---------------------------------------------------------------- replicas


def hanging(made: Nodes, address: str, *nodes: int) -> None:
    """Has the catalog say that these nodes are at another address."""
    for node in nodes:
        record = msgspec.structs.replace(made.catalog.nodes[NodeId(node)], address=address)
        made.change([put(keys.node(record.id), record)])


def test_readers_and_writers_give_up_on_replicas_that_hang(two: Nodes, hung: str) -> None:
    transaction = two.open()
    two.commit(transaction, stage(two.facts(), transaction, [rows(0, 10)], two.catalog.revision))
    hanging(two, hung, 1, 2)
    told: list[LeaseholdError | None] = []
    asking = Asking.of(SHORT, lambda error, _: told.append(error))
    with pytest.raises(Unreachable) as caught:
        read_plan(two.plan(), asking=asking).read_all()
    assert caught.value.code == "NO_REPLICA"
    with pytest.raises(Unreachable) as caught:
        stage(two.facts(), two.open(), [rows(0, 10)], two.catalog.revision, asking=asking)
    assert caught.value.code == "NO_REPLICA"
    for node in ("node 1 (n1): no answer for", "node 2 (n2): no answer for"):
        assert node in caught.value.text


def test_one_that_hangs_costs_no_append(two: Nodes, hung: str) -> None:
    hanging(two, hung, 1)
    (staged,) = stage(two.facts(), two.open(), [rows(0, 10)], two.catalog.revision, asking=Asking.of(20, print))
    assert [one.node for one in staged.holders] == [2]


def test_fenced_replicas_are_told_while_they_are_asked_again(two: Nodes) -> None:
    transaction = two.open()
    two.commit(transaction, stage(two.facts(), transaction, [rows(0, 10)], two.catalog.revision))
    for node in two.nodes:
        node.fence()
    told: list[LeaseholdError | None] = []

    def tell(error: LeaseholdError | None, _left_s: float) -> None:
        told.append(error)
        for node in two.nodes:
            node.grant()

    assert read_plan(two.plan(), asking=Asking(30 * SECOND_NS, tell)).read_all().num_rows == 10
    first, *_, last = told
    assert isinstance(first, LeaseholdError)
    assert "has been fenced for" in first.text
    assert last is None


GIVE_UP, DELAY = 10_000, 100


def asked_once() -> Hedging:
    one = Hedging((NodeId(3), NodeId(1)), give_up_ns=GIVE_UP, pause_ns=50)
    assert one.move(0, delay_ns=DELAY, may_hedge=False) == Ask(node=NodeId(3))
    return one


def test_who_is_silent_for_a_quarter_is_not_asked_alone_whatever_the_budget() -> None:
    one = asked_once()
    assert isinstance(one.move(GIVE_UP // 4 - 1, delay_ns=DELAY, may_hedge=False), Wait)
    assert one.move(GIVE_UP // 4, delay_ns=DELAY, may_hedge=False) == Ask(node=NodeId(1), also=True)


def test_it_gives_up_once_all_have_been_silent_for_so_long() -> None:
    one = asked_once()
    one.progressed(NodeId(3), 50)
    one.move(GIVE_UP // 2, delay_ns=DELAY, may_hedge=False)
    assert isinstance(one.move(GIVE_UP + 49, delay_ns=DELAY, may_hedge=False), Wait)
    assert one.move(GIVE_UP + 50, delay_ns=DELAY, may_hedge=False) == GiveUp()
    assert {*one.asked} == {3, 1}


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), 1e12])
def test_a_timeout_out_of_range_changes_nothing(timeout: float, nobody: str) -> None:
    with Cluster(nobody) as client, pytest.raises(BadSettings):
        client.sql("CREATE DATABASE d", timeout=timeout)
