"""TLS in memory: what is written is read, and whose certificate it is."""

import contextlib
import ssl
from pathlib import Path

import pytest
from tests.certificate_words import issued, of_process

from leasehold.certificates.files import IDENTITY
from leasehold.wire.http2.tls_end import RECORD_BYTES, TlsEnd, server_context

SIZES = [0, 1, RECORD_BYTES - 1, RECORD_BYTES, 64 * 1024 - 1, 64 * 1024, 100_003]


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issued(tmp_path_factory.mktemp("pki") / "ours")


class Client:
    """The other end."""

    def __init__(self, pki: Path, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.maximum_version = version
        self.context.load_verify_locations(pki / "ann" / "ca.pem")
        self.context.load_cert_chain(pki / "ann" / IDENTITY)
        self.context.set_alpn_protocols(["h2"])
        self.begin()

    def begin(self) -> None:
        self.came, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = self.context.wrap_bio(self.came, self.out)

    def shake(self, end: TlsEnd) -> None:
        """Until both are done."""
        for _ in range(10):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            sent = self.out.read()
            if sent:
                end.came(memoryview(sent))
                if not end.is_open:
                    end.shake()
            self.came.write(end.ciphertext())


def context_of(pki: Path, *, asks: bool) -> ssl.SSLContext:
    tls = of_process(pki / "coordinator")
    return server_context(tls.chain, tls.key, tls.roots if asks else None)


def test_a_handshake_is_by_the_curve_p_256_alone(pki: Path) -> None:
    context = context_of(pki, asks=False)
    for curve, is_served in (("prime256v1", True), ("secp384r1", False), ("secp521r1", False)):
        end, client = TlsEnd(context), Client(pki)
        client.context.set_ecdh_curve(curve)
        client.begin()
        with contextlib.nullcontext() if is_served else pytest.raises(ssl.SSLError):
            client.shake(end)
        assert end.is_open is is_served


def test_older_versions_are_refused(pki: Path) -> None:
    end, client = TlsEnd(context_of(pki, asks=False)), Client(pki, version=ssl.TLSVersion.TLSv1_2)
    with pytest.raises(ssl.SSLError):
        client.shake(end)


def test_what_is_written_is_read(pki: Path) -> None:
    end, client = TlsEnd(context_of(pki, asks=True)), Client(pki)
    client.shake(end)
    facts = end.facts()
    [content] = facts["x509_pem_cert"]
    assert content.strip() in (pki / "ann" / IDENTITY).read_bytes()
    assert [one.endswith(b"/client/ann") for one in facts["peer_uri"]] == [True]
    for first in SIZES:
        for second in SIZES:
            sent = [b"a" * first, memoryview(b"b" * second), b"c"]
            parts = end.encrypted(sent)
            assert all(len(one) < 3 * RECORD_BYTES for one in parts), "OpenSSL keeps the room for the largest"
            client.came.write(b"".join(parts))
            heard = b""
            while len(heard) < first + second + 1:
                heard += client.tls.read(RECORD_BYTES)
            assert heard == b"".join(sent)
    client.tls.write(b"x" * 100_000)
    end.came(memoryview(client.out.read()))
    buffer, heard = memoryview(bytearray(3 * RECORD_BYTES)), b""
    while len(heard) < 100_000:
        size, is_end = end.read_into(buffer)
        assert not is_end
        heard += buffer[:size]
    assert heard == b"x" * 100_000
    assert end.read_into(buffer) == (0, False)


def test_what_is_kept_is_read_later_whatever_becomes_of_the_buffer(pki: Path) -> None:
    end, client = TlsEnd(context_of(pki, asks=False)), Client(pki)
    client.shake(end)
    client.tls.write(b"x" * 40_000)
    received = bytearray(client.out.read())
    end.came(memoryview(received))
    buffer, heard = memoryview(bytearray(RECORD_BYTES)), b""
    size, _ = end.read_into(buffer)
    heard += buffer[:size]
    end.keep()
    received[:] = bytes(len(received))
    client.tls.write(b"y" * 40_000)
    end.came(memoryview(b""))
    end.came(memoryview(client.out.read()))
    while len(heard) < 80_000:
        size, _ = end.read_into(buffer)
        assert size
        heard += buffer[:size]
    assert heard == b"x" * 40_000 + b"y" * 40_000


def test_the_end_of_the_peer_is_noticed(pki: Path) -> None:
    end, client = TlsEnd(context_of(pki, asks=False)), Client(pki)
    client.shake(end)
    assert end.facts() == {}
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    end.came(memoryview(client.out.read()))
    assert end.read_into(memoryview(bytearray(RECORD_BYTES))) == (0, True)


def test_a_peer_without_http2_is_refused(pki: Path) -> None:
    end, client = TlsEnd(context_of(pki, asks=False)), Client(pki)
    client.context.set_alpn_protocols(["http/1.1"])
    client.begin()
    with pytest.raises(ssl.SSLError):
        client.shake(end)
