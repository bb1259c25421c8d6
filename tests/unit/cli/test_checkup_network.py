"""What `leasehold doctor` finds on the way to other processes, over real sockets."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.certificate_words import issued, of_process
from tests.unit.cli.finding_words import is_wrong

from leasehold.certificates.names import CertificateRole
from leasehold.cli.checkup import network, others
from leasehold.cli.checkup.finding import HostFinding
from leasehold.cli.checkup.network import OtherProcess, check_process, check_store
from leasehold.cli.config import coordinator_config, node_config
from leasehold.core.swim.messages import Member, Role
from leasehold.core.words.messages import ClusterFacts, Message, WhoAreYou
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import ClusterId, Generation, NodeId, Term
from leasehold.limits.units import MILLISECOND_NS
from leasehold.wire.ports import Duplex
from leasehold.wire.rpc import serve
from leasehold.wire.tls import Tls


class Answering:
    """A coordinator that says which cluster it serves, or refuses to."""

    def __init__(self, cluster: str | None) -> None:
        self._cluster = cluster

    async def call(self, request: Message) -> Message:
        assert isinstance(request, WhoAreYou)
        if self._cluster is None:
            raise Refused("not initialised", code=ErrorCode.NOT_INITIALISED, hint="leasehold init")
        return ClusterFacts(cluster_id=ClusterId(self._cluster), generation=Generation(1), term=Term(1), leader=True)

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        yield request

    async def session(self, duplex: Duplex) -> None:
        await duplex.close()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


@asynccontextmanager
async def serving(tls: Tls | None, cluster: str | None = "c" * 32) -> AsyncIterator[str]:
    server = await serve("127.0.0.1:0", Answering(cluster), on_fault=lambda _fault: None, tls=tls)
    try:
        yield server.address
    finally:
        await server.close()


@contextmanager
def listening() -> Iterator[str]:
    """A process that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


async def found(address: str, tls: Tls | None, role: CertificateRole = CertificateRole.COORDINATOR) -> HostFinding:
    return (await asyncio.to_thread(check_process, OtherProcess(role, "", address), tls))[0]


async def test_a_coordinator_is_asked_for_its_cluster_with_tls_and_without(pki: Path) -> None:
    async with serving(of_process(pki / "coordinator")) as address:
        finding = await found(address, of_process(pki / "node-1"))
    assert finding == HostFinding(check=f"coordinator at {address}", ok=True, text=f"leads cluster {'c' * 32}")
    async with serving(None) as address:
        assert (await found(address.replace("127.0.0.1", "localhost"), None)).ok
    async with serving(None, cluster=None) as address:
        is_wrong(await found(address, None), "not initialised", "leasehold init")


async def test_a_node_is_expected_where_a_node_should_be(pki: Path) -> None:
    own, role = of_process(pki / "coordinator"), CertificateRole.NODE
    async with serving(of_process(pki / "node-2")) as address:
        assert (await found(address, own, role)).text == "answers"
        is_wrong(await found(address, own), "certificate of another process", "no coordinator of this cluster")
    async with serving(own) as address:
        is_wrong(await found(address, own, role), "certificate of another process", "no node of this cluster")


async def test_the_certificate_of_this_process_is_shown_to_the_other(pki: Path, tmp_path: Path) -> None:
    theirs = issued(tmp_path / "theirs")
    async with serving(of_process(pki / "coordinator")) as address:
        is_wrong(await found(address, of_process(theirs / "node-1")), "not accepted", "leasehold ca show")
        trusting = of_process(theirs / "node-1")
        trusting = Tls(
            authority=of_process(pki / "node-1").authority,
            roots=of_process(pki / "node-1").roots,
            chain=trusting.chain,
            key=trusting.key,
            bundle=trusting.bundle,
        )
        is_wrong(await found(address, trusting))
        is_wrong(await found(address, None), "--tls")
    async with serving(None) as address:
        is_wrong(await found(address, of_process(pki / "node-1")), "TLS fails", "neither")


async def test_an_end_that_is_not_there_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    is_wrong(await found("127.0.0.1:1", None), "nothing listens there")
    is_wrong(await found("nowhere.invalid:7400", None), "nowhere.invalid is not known", "DNS")
    is_wrong(await found("a..b:7400", None), "a..b is not known", "DNS")
    is_wrong(check_store("a..b:2379"), "a..b is not known", "DNS")
    monkeypatch.setattr(network, "CHECKUP_CONNECT_NS", 50 * MILLISECOND_NS)
    with listening() as address:
        is_wrong(await found(address, None), "no answer in time", address.rpartition(":")[2])
        assert check_store(address).ok
    is_wrong(check_store(address), "nothing listens there")


async def test_a_way_that_takes_only_short_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "CHECKUP_PACKET_BYTES_MIN", 100_000)
    async with serving(None) as address:
        is_wrong(await found(address, None), "bytes", "MTU")


def test_every_error_of_a_connection_has_words() -> None:
    late = ssl.SSLError(1, "[SSL: X] x")
    late.reason = "TLSV1_ALERT_UNKNOWN_CA"
    for error in (late, OSError(113, "No route to host"), OSError("odd")):
        text, hint = network._explained(error, "10.0.0.1:7400", "node")
        assert text
        assert hint


# ---------------------------------------------------------------- all others


def member(name: str, role: Role, service: str) -> Member:
    return Member(name=name, address="10.0.0.9:1", role=role, service=service, node=NodeId(0))


async def test_those_that_are_given_and_those_that_gossip_shows_are_tried_once_each(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as servers:
        one, other = [await servers.enter_async_context(serving(None, letter * 32)) for letter in "cd"]
        config = node_config(None, {"dir": tmp_path, "name": "n", "coordinators": [one]})
        shown = [member("c1", Role.COORDINATOR, one), member("c2", Role.COORDINATOR, other)]
        findings = await asyncio.to_thread(others.check_others, config, None, shown)
    checks = [(finding.check, finding.ok) for finding in findings]
    processes = [f"coordinator at {one}", f"coordinator c2 at {other}"]
    assert checks == [
        *((one, True) for one in processes),
        *((f"clock speed of {one}", True) for one in processes),
        ("cluster", False),
    ]


async def test_a_node_that_knows_nobody_and_one_without_its_certificate(tmp_path: Path) -> None:
    alone = node_config(None, {"dir": tmp_path, "name": "n"})
    (finding,) = others.check_others(alone, None, [])
    is_wrong(finding, "none is known")
    given = {"dir": tmp_path, "name": "n", "coordinators": ["127.0.0.1:1"], "tls": tmp_path / "lost"}
    assert others.check_others(node_config(None, given), None, []) == []


async def test_a_coordinator_needs_its_store(tmp_path: Path) -> None:
    config = coordinator_config(None, {"dir": tmp_path, "meta": "etcd://127.0.0.1:1/mine"})
    (finding,) = await asyncio.to_thread(others.check_others, config, None, [])
    is_wrong(finding, "nothing listens there")
    assert finding.check == "store at 127.0.0.1:1"
