"""Whoever is not who a message says it is: each kind of message, at both doors of real processes, by each such caller.

The messages have the ids of the cluster and of its first node, as whoever has seen them in passing could make them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from pyarrow import flight

from leasehold.certificates.authority import create_authority, issue, open_authority
from leasehold.certificates.files import CA
from leasehold.certificates.names import CertificateRole
from leasehold.client.locate import read_cluster_file
from leasehold.core.words.messages import (
    Allocate,
    AskCompaction,
    AskIncarnation,
    AskSnapshot,
    ChallengeCoordinator,
    EndCompaction,
    Failure,
    FetchTicket,
    ForwardTicket,
    Join,
    OpenSession,
    ReportCoordinator,
    ReportProcessEnd,
    WhoAreYou,
)
from leasehold.errors import LeaseholdError
from leasehold.limits.units import SECOND_NS
from leasehold.local.files import read_address
from leasehold.wire.addresses import next_port
from leasehold.wire.flight import calling, descriptor, reader_to, ticket
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.tls import Tls, read_tls
from tests.e2e.cluster import RunningCluster
from tests.golden.examples import UNIONS, example, members

pytestmark = pytest.mark.processes

TIMEOUT_NS = 20 * SECOND_NS
OF_NODE_1 = (
    Allocate,
    AskCompaction,
    AskIncarnation,
    AskSnapshot,
    EndCompaction,
    FetchTicket,
    ForwardTicket,
    Join,
    OpenSession,
    ReportProcessEnd,
)
KINDS = list(members(UNIONS["messages"]).values())


class Ground(NamedTuple):
    cluster: RunningCluster
    coordinator: str
    node: str
    """The address of the first one."""
    callers: dict[str, Tls]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("attacks")
    with RunningCluster.start(folder / "cluster", nodes=2, tls=True) as running:
        tls, now = running.directory / "tls", datetime.now(UTC)
        ours = open_authority(tls / "authority")
        revoked = issue(ours, CertificateRole.NODE, "node-1", 5, folder / "revoked", now)
        past = now.replace(microsecond=0) - timedelta(seconds=20)
        issue(ours, CertificateRole.NODE, "node-1", 0, folder / "expired", past)
        theirs = create_authority(folder / "theirs", ours.id, now)
        issue(theirs, CertificateRole.NODE, "node-1", 5, folder / "foreign", now)
        own, foreign = read_tls(tls / "client"), read_tls(folder / "foreign")
        callers = {
            "nobody": read_tls(tls / CA),
            "client": own,
            "node-2": read_tls(tls / "node-2"),
            "coordinator": read_tls(tls / "coordinator"),
            "revoked": read_tls(folder / "revoked"),
            "expired": read_tls(folder / "expired"),
            "foreign": msgspec.structs.replace(own, chain=foreign.chain, key=foreign.key),
        }
        with running.connect() as cluster:
            cluster.sql(f"ALTER CLUSTER REVOKE CERTIFICATE '{revoked.serial:x}'")
        coordinator, node = (
            read_cluster_file(running.directory).coordinators,
            read_address(running.directory / "node-1"),
        )
        assert node is not None
        yield Ground(running, next(iter(coordinator.values())), node, callers)


def made(ground: Ground, kind: type[Any]) -> Any:
    """A message of that kind which says that it is of the first node."""
    said = {
        "cluster_id": read_cluster_file(ground.cluster.directory).cluster_id,
        "node": 1,
        "sender": 1,
        "name": "node-1",
        "token": "1" * 32,
    }
    message = example(kind, full=False)
    whose = {name: value for name, value in said.items() if name in kind.__struct_fields__}
    if kind not in (*OF_NODE_1, ReportCoordinator):
        whose.pop("name", None)
    return msgspec.structs.replace(message, **whose)


async def code(asking: Coroutine[Any, Any, Any]) -> str:
    """With which code it is refused; empty where it is answered."""
    try:
        await asyncio.wait_for(asking, TIMEOUT_NS / SECOND_NS)
    except LeaseholdError as error:
        return str(error.code)
    return ""


async def at_coordinator(address: str, tls: Tls, message: Any) -> dict[str, str]:
    """What becomes of a message by each method."""
    connection = GrpcTransport(tls).connect(address)

    async def stream() -> None:
        async for _ in connection.stream(message, timeout_ns=TIMEOUT_NS):
            return

    async def session() -> None:
        duplex = await connection.session()
        with suppress(LeaseholdError):
            await duplex.send(message)
        assert await duplex.receive() is not None

    try:
        return {
            "call": await code(connection.call(message, timeout_ns=TIMEOUT_NS)),
            "stream": await code(stream()),
            "session": await code(session()),
        }
    finally:
        await connection.close()


def at_node(address: str, tls: Tls, message: Any) -> dict[str, str]:
    """What becomes of it as a ticket, and as the command of an append."""
    client, options = reader_to(address, tls), flight.FlightCallOptions(timeout=TIMEOUT_NS / SECOND_NS)

    def put() -> None:
        schema = pa.schema([("a", pa.int64())])
        writer, answers = client.do_put(descriptor(message), schema, options)
        try:
            answers.read()
        finally:
            writer.close()

    ways: dict[str, Callable[[], Any]] = {"get": lambda: client.do_get(ticket(message), options).read_all(), "put": put}
    found: dict[str, str] = {}
    for way, ask in ways.items():
        try:
            with calling(address):
                ask()
        except LeaseholdError as error:
            found[way] = str(error.code)
        else:
            found[way] = ""
    return found


async def refusals(ground: Ground, caller: str, kind: type[Any]) -> dict[str, str]:
    message, tls = made(ground, kind), ground.callers[caller]
    found = await at_coordinator(ground.coordinator, tls, message)
    return found | await asyncio.to_thread(at_node, ground.node, tls, message)


def revision(ground: Ground) -> int:
    with ground.cluster.connect() as cluster:
        return cluster.status().revision


@pytest.mark.parametrize("caller", ["expired", "foreign"])
async def test_who_shows_a_certificate_that_does_not_hold_is_heard_by_nobody(ground: Ground, caller: str) -> None:
    for kind in KINDS:
        assert set((await refusals(ground, caller, kind)).values()) == {"UNREACHABLE"}, kind


async def test_whoever_shows_none_comes_in_at_the_other_door_alone(ground: Ground) -> None:
    host, _, port = ground.coordinator.rpartition(":")
    members_door = f"{host}:{int(port) - 1}"
    assert next_port(members_door) == ground.coordinator
    found = await at_coordinator(members_door, ground.callers["nobody"], WhoAreYou())
    assert set(found.values()) == {"UNREACHABLE"}


async def test_a_revoked_certificate_asks_nothing_at_all(ground: Ground) -> None:
    for kind in KINDS:
        found = await refusals(ground, "revoked", kind)
        opens = {"session"} if kind not in (OpenSession, ChallengeCoordinator) else set()
        for way, refused in found.items():
            expected = {"BAD_MESSAGE"} if way in opens else {"CERTIFICATE_REVOKED", "BAD_MESSAGE"}
            if kind is Failure:
                expected.add("UNKNOWN")  # a session ends with the error that it is sent
            assert refused in expected, (kind, way, refused)


@pytest.mark.parametrize(
    ("caller", "codes"),
    [
        ("nobody", {"WRONG_DOOR"}),
        ("client", {"WRONG_DOOR"}),
        ("node-2", {"NOT_THIS_NODE"}),
        ("coordinator", {"NOT_THIS_NODE"}),
    ],
)
async def test_what_is_of_a_node_is_answered_to_that_node_alone(ground: Ground, caller: str, codes: set[str]) -> None:
    before = revision(ground)
    for kind in OF_NODE_1:
        found = await refusals(ground, caller, kind)
        assert codes <= set(found.values()) <= codes | {"BAD_MESSAGE", "BAD_TICKET"}, (kind, found)
        assert found["session" if kind is OpenSession else "get" if "Ticket" in kind.__name__ else "call"] in codes
    if caller != "coordinator":
        found = await refusals(ground, caller, ReportCoordinator)
        assert found["call"] in codes
    assert revision(ground) == before
