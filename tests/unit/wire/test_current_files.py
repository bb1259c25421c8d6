"""Certificates and keys that are replaced while a process runs, over real sockets."""

import asyncio
import contextlib
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from tests.certificate_words import issued

from leasehold.certificates.authority import Authority, create_authority, open_authority, renew
from leasehold.certificates.checks import load_own
from leasehold.certificates.files import CA, IDENTITY
from leasehold.certificates.names import CertificateRole
from leasehold.certificates.trust import trust
from leasehold.core.words.messages import AskStatus, Message
from leasehold.errors import BadCertificate, Unreachable
from leasehold.limits.certificates import CERTIFICATE_FILES_LOOK_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.addresses import next_port
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.current_files import TlsFiles, say_ended, watch
from leasehold.wire.ports import Duplex
from leasehold.wire.rpc import GrpcServer, serve
from leasehold.wire.rpc_client import GrpcTransport
from leasehold.wire.tls import Tls, TlsSource, own_tls, read_tls

TIMEOUT_NS = 10 * SECOND_NS


class Echo:
    async def call(self, request: Message) -> Message:
        return request

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        yield request

    async def session(self, duplex: Duplex) -> None:
        while (message := await duplex.receive()) is not None:
            await duplex.send(message)


class ReadClock(BoottimeClock):
    """Goes on as it is told."""

    passed_ns = 0

    def now_ns(self, _clock_id: int = 0) -> int:
        return self.passed_ns


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    return issued(tmp_path / "pki")


def renewed(pki: Path, holder: str, authority: Authority | None = None) -> None:
    renew(authority or open_authority(pki / "authority"), pki / holder, 2, datetime.now(UTC))


def of_coordinator(pki: Path) -> TlsFiles:
    return TlsFiles(pki / "coordinator", partial(own_tls, role=CertificateRole.COORDINATOR))


async def started(tls: TlsSource) -> GrpcServer:
    return await serve("127.0.0.1:0", Echo(), on_fault=lambda fault: pytest.fail(repr(fault)), tls=tls)


async def asks(address: str, tls: TlsSource) -> None:
    connection = GrpcTransport(tls).connect(address)
    try:
        assert await connection.call(AskStatus(), timeout_ns=TIMEOUT_NS) == AskStatus()
    finally:
        await connection.close()


def shown_serial(address: str, own: Path | None) -> int:
    """The serial number that the server at `address` shows to a new connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if own is not None:
        context.load_cert_chain(str(own))
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as secured:
        shown = secured.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


async def test_both_doors_show_a_new_certificate_to_new_connections_and_open_ones_go_on(pki: Path) -> None:
    files = of_coordinator(pki)
    server = await started(files)
    connection = GrpcTransport(read_tls(pki / "node-1")).connect(server.address)

    async def shown() -> set[int]:
        doors = ((server.address, pki / "ann" / IDENTITY), (next_port(server.address), None))
        return {await asyncio.to_thread(shown_serial, *door) for door in doors}

    try:
        session = await connection.session()
        first = load_own(pki / "coordinator", datetime.now(UTC)).serial
        assert await shown() == {first}
        renewed(pki, "coordinator")
        assert files.look()
        second = load_own(pki / "coordinator", datetime.now(UTC)).serial
        assert await shown() == {second} != {first}
        await session.send(AskStatus())
        assert await session.receive() == AskStatus()
    finally:
        await connection.close()
        await server.close()


async def test_a_server_and_its_callers_change_their_authority_without_a_restart(pki: Path) -> None:
    """The steps of docs/certificates.md: each side works with the other after each step."""
    files, caller = of_coordinator(pki), TlsFiles(pki / "node-1", read_tls)
    after = create_authority(pki / "after", "", datetime.now(UTC), successor_of=pki / "authority")
    server = await started(files)
    blocking = BlockingConnection(server.address, caller)

    async def step(bundle: str, change: object) -> None:
        assert change is not None
        assert (files if bundle == "coordinator" else caller).look()
        await asks(server.address, caller)
        await asyncio.to_thread(blocking.call, AskStatus(), TIMEOUT_NS)

    old = read_tls(pki / "ann")
    now, root = datetime.now(UTC), [pki / "after" / CA]
    try:
        await asks(server.address, old)
        for bundle in ("coordinator", "node-1"):
            await step(bundle, trust(pki / bundle, root, now, only=False))
        for bundle in ("coordinator", "node-1"):
            await step(bundle, renew(after, pki / bundle, 2, now))
        for bundle in ("coordinator", "node-1"):
            await step(bundle, trust(pki / bundle, root, now, only=True))
        with pytest.raises(Unreachable):
            await asks(server.address, old)
    finally:
        blocking.close()
        await server.close()


def test_files_are_looked_at_again_after_a_time_and_only_read_where_they_have_changed(pki: Path) -> None:
    clock, read = ReadClock(), list[Tls]()

    def reading(path: Path) -> Tls:
        read.append(read_tls(path))
        return read[-1]

    files = TlsFiles(pki / "ann", reading, clock)
    first = files.now()
    renewed(pki, "ann")
    assert files.now() is first
    clock.passed_ns = CERTIFICATE_FILES_LOOK_NS
    second = files.now()
    assert second != first
    assert second == read_tls(pki / "ann")
    clock.passed_ns *= 2
    assert files.now() is second
    assert len(read) == 2


def test_a_file_of_authorities_is_looked_at_too(pki: Path) -> None:
    create_authority(pki / "after", "", datetime.now(UTC), successor_of=pki / "authority")
    roots = pki / "roots.pem"
    shutil.copy(pki / "authority" / CA, roots)
    files = TlsFiles(roots, read_tls)
    with roots.open("ab") as file:
        file.write((pki / "after" / CA).read_bytes())
    assert files.look()
    assert files.now().roots.count(b"BEGIN CERTIFICATE") == 2


@pytest.mark.parametrize("what", ["garbled", "gone", "of another authority", "of another process"])
def test_a_change_that_is_of_no_use_is_not_taken(
    pki: Path, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = of_coordinator(pki)
    before, identity = files.now(), pki / "coordinator" / IDENTITY
    whole = identity.read_bytes()
    match what:
        case "garbled":
            identity.write_bytes(whole[: len(whole) // 2])
        case "gone":
            identity.unlink()
        case "of another authority":
            shutil.rmtree(pki / "coordinator")
            shutil.copytree(issued(tmp_path / "theirs") / "coordinator", pki / "coordinator")
        case _:
            shutil.copy(pki / "node-1" / IDENTITY, identity)
    assert not files.look()
    assert files.now() is before
    assert "going on with what was in" in caplog.text
    with contextlib.suppress(FileNotFoundError):
        assert identity.read_text() not in caplog.text
    if what in {"garbled", "gone"}:  # it is tried again, and what is whole is taken
        identity.write_bytes(whole)
        identity.chmod(0o600)
        renewed(pki, "coordinator")
        assert files.look()


def test_what_is_of_no_use_at_first_is_refused(pki: Path) -> None:
    with pytest.raises(BadCertificate):
        TlsFiles(pki / "node-1", partial(own_tls, role=CertificateRole.COORDINATOR))


@pytest.mark.parametrize("by_connection", [False, True])
async def test_a_process_looks_at_once_when_it_is_told_to(pki: Path, by_connection: bool) -> None:
    """It hears of a change also where a connection has found it first."""
    files, told, changed = of_coordinator(pki), asyncio.Event(), asyncio.Event()
    first = files.now()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch(files, files.now(), BoottimeClock(), told, lambda _: changed.set()))
        await asyncio.sleep(0)
        assert not changed.is_set()
        renewed(pki, "coordinator")
        if by_connection:
            files.look()
        told.set()
        await changed.wait()
        watching.cancel()
    assert files.now() != first


async def test_a_process_goes_on_when_its_certificate_has_ended_and_says_so(
    pki: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def reading(path: Path) -> Tls:
        found = own_tls(path, CertificateRole.COORDINATOR)
        return msgspec.structs.replace(found, until=datetime(2020, 1, 1, tzinfo=UTC))

    files = TlsFiles(pki / "coordinator", reading)
    watching = asyncio.create_task(say_ended(files, BoottimeClock()))
    await asyncio.sleep(0)
    assert "has ended at 2020-01-01 00:00:00+00:00" in caplog.text
    assert not watching.done()
    watching.cancel()
