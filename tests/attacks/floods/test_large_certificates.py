"""Chains of certificates as large as TLS takes, at the doors of members: gRPC takes them in before any call."""

import contextlib
import datetime as dt
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from leasehold.certificates.files import CA, IDENTITY
from leasehold.client.trust import CLIENT_FOLDER, TLS_FOLDER
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import WhoAreYou
from leasehold.limits.requests import CONNECTION_IDLE_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.addresses import next_port
from tests.attacks.floods.test_flight_floods import SERVICE
from tests.attacks.ground import Ground
from tests.attacks.unfinished import untaken_calls

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

DO_GET = f"{SERVICE}DoGet"
ADDRESSES = 4
"""Of the attackers."""
AT_ONCE = 400
FEW_AT_ONCE = 8
HELD = 250
"""Together they would take half a GiB."""
TIMEOUT_S = CONNECTION_IDLE_NS / SECOND_NS / 2
"""Connections that nobody looks at are closed later."""
ANSWER_BYTES = 65_536
NAMES = 7_600
"""Parts of one name in a certificate: with them it is as large as a chain may be, and takes 20 times that in memory."""
LACKING = 3_000
"""Bytes of the chain that don't come."""
NAMES_OF_SMALL = 2_000
"""With them a certificate has 28 KB."""
PROOF = 100
"""Bytes of the proof of the key, behind the chain."""


@pytest.fixture
def ground(ground_with_tls: Ground) -> Ground:
    return ground_with_tls.attacked_by(ground_with_tls.directory / TLS_FOLDER / CA)


def certificate(names: int) -> tuple[bytes, bytes]:
    """One that nobody has signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")] * names)
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name if names == 1 else x509.Name([]))
    made = made.public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(begin).not_valid_after(begin + dt.timedelta(days=9))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), private


def shown(path: Path, first: bytes, names: int = NAMES) -> ssl.SSLContext:
    """Shows the key and the certificate in `first`, and a large one behind it."""
    path.write_bytes(first + certificate(names)[0])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(path)
    return context


def handshake(connection: socket.socket, context: ssl.SSLContext, lacking: int) -> None:
    """Begins TLS and sends its chain, without the last bytes of it."""
    came, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(came, going)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            connection.sendall(going.read())
            answer = connection.recv(ANSWER_BYTES)
            if not answer:
                raise ConnectionError("the server has closed the connection") from None
            came.write(answer)
    flight = going.read()
    connection.sendall(flight[: len(flight) - lacking])


def connection(ground: Ground, door: str, number: int) -> socket.socket:
    """To a door of members, from one of several addresses."""
    host, port = door.rsplit(":", 1)
    source = ground.strange_host(2 + number % ADDRESSES)
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S, source_address=(source, 0))


def wait_for_the_end(one: socket.socket) -> None:
    """Raises `TimeoutError` if the server lets it be."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while one.recv(ANSWER_BYTES):
            pass


@pytest.mark.parametrize(
    ("names", "lacking"),
    [(NAMES, 0), (NAMES, LACKING), (NAMES_OF_SMALL, PROOF)],
    ids=["whole", "not whole", "without a proof"],
)
def test_large_chains_of_strangers(ground: Ground, scale: int, tmp_path: Path, names: int, lacking: int) -> None:
    own, key = certificate(1)
    context = shown(tmp_path / "chain", key + own, names)
    doors = [ground.coordinator, *ground.nodes()]

    def attack(number: int) -> None:
        try:
            one = connection(ground, doors[number % len(doors)], number)
        except OSError:
            return  # it is kept out
        with one:
            with contextlib.suppress(OSError):
                handshake(one, context, lacking)
            wait_for_the_end(one)

    with ground.attacked(), ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(attack, range(AT_ONCE * (2 + scale))))


@pytest.mark.parametrize("calls", [0, 1])
def test_large_chains_of_a_client(ground: Ground, scale: int, tmp_path: Path, calls: int) -> None:
    """The authority has signed its certificate. It speaks HTTP/2, asks nothing or once, and stays."""
    bundle = ground.directory / TLS_FOLDER / CLIENT_FOLDER
    context = shown(tmp_path / "chain", (bundle / IDENTITY).read_bytes())
    (door, *_) = ground.nodes()

    def open_one(number: int) -> ssl.SSLSocket | None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as made:  # it may be kept out
            plain = made.enter_context(connection(ground, door, number))
            tls = made.enter_context(context.wrap_socket(plain))
            tls.sendall(untaken_calls(DO_GET, door, encode(WhoAreYou()), calls))
            made.pop_all()
            return tls
        return None

    with ground.attacked(), contextlib.ExitStack() as opened, ThreadPoolExecutor(FEW_AT_ONCE) as pool:
        made = [opened.enter_context(one) for one in pool.map(open_one, range(HELD * scale)) if one is not None]
        assert made
        for one in made:
            wait_for_the_end(one)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_processes_of_a_cluster_speak_tls_1_3_alone(ground: Ground, version: ssl.TLSVersion) -> None:
    """A server of gRPC keeps thousands of sessions of TLS 1.2, each with the chain of its peer."""
    context = ssl.create_default_context(cafile=ground.directory / TLS_FOLDER / CA)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    for address in (ground.coordinator, *ground.nodes()):
        for door in (address, next_port(address)):
            host, port = door.rsplit(":", 1)
            refused = pytest.raises((ssl.SSLError, ConnectionError))
            expected = refused if version is ssl.TLSVersion.TLSv1_2 else contextlib.nullcontext()
            connection = socket.create_connection((host, int(port)), timeout=60)
            with connection, expected, context.wrap_socket(connection):
                pass
