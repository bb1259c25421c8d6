"""TLS between two buffers in memory: OpenSSL, without a socket.

A buffer of OpenSSL keeps what it once held. So each gets a part at a time, and has a few dozen KiB at most.
"""

import contextlib
import os
import ssl
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Final

RECORD_BYTES: Final = 16 * 1024
_FED_BYTES: Final = RECORD_BYTES
_ENCRYPTED_BYTES: Final = 2 * RECORD_BYTES
_PROTOCOL: Final = "h2"
_NOTHING: Final = memoryview(b"")


class TlsEnd:
    """A server's end of one connection."""

    __slots__ = ("_came", "_in", "_out", "_tls", "is_open")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._came = _NOTHING
        """Ciphertext that was not fed to OpenSSL yet."""
        self.is_open = False
        """Whether the handshake is done."""

    def came(self, ciphertext: memoryview) -> None:
        """It is read next; what of it is left then has to be kept."""
        if ciphertext:
            self._came = memoryview(b"".join((self._came, ciphertext))) if self._came else ciphertext

    def keep(self) -> None:
        """What is left is read another time: its bytes may change."""
        if self._came:
            self._came = memoryview(bytes(self._came))

    def _feed(self) -> bool:
        """Whether there was something."""
        fed, rest = self._came[:_FED_BYTES], self._came[_FED_BYTES:]
        self._came = rest or _NOTHING  # an empty part of a buffer would hold it
        self._in.write(fed)
        return bool(fed)

    def shake(self) -> bool:
        """Goes on with the handshake; whether it is done. Raises `ssl.SSLError`."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                if self._feed():
                    continue
                return False
            break
        if self._tls.selected_alpn_protocol() != _PROTOCOL:
            raise ssl.SSLError("the peer does not speak HTTP/2")
        self.is_open = True
        return True

    def read_into(self, buffer: memoryview) -> tuple[int, bool]:
        """Fills the buffer, of at least a record, with what there is; also whether the peer has said that no more
        comes. Raises `ssl.SSLError`."""
        at = 0
        while len(buffer) - at >= RECORD_BYTES:
            try:
                size = self._tls.read(RECORD_BYTES, buffer[at:])  # pyright: ignore[reportArgumentType] any buffer will do
            except ssl.SSLWantReadError:
                if self._feed():
                    continue
                return at, False
            except ssl.SSLZeroReturnError:
                return at, True
            if not size:
                return at, True
            at += int(size)
        return at, False

    def encrypted(self, chunks: Iterable[bytes | memoryview]) -> list[bytes]:
        """What is to be sent for these. A large chunk is not copied, but for its ends."""
        found: list[bytes] = []
        for part in _parts(chunks):
            self._tls.write(part)
            found.append(self._out.read())
        return found

    def ciphertext(self) -> bytes:
        """What is to be sent."""
        return self._out.read()

    def facts(self) -> dict[str, list[bytes]]:
        """The certificate of the peer, which was verified, and the URIs that it names, by gRPC's names; empty without
        one."""
        content = self._tls.getpeercert(binary_form=True)
        if not content:
            return {}
        names = (self._tls.getpeercert() or {}).get("subjectAltName", ())
        uris = [str(one[1]).encode() for one in names if one[0] == "URI"]
        return {"peer_uri": uris, "x509_pem_cert": [ssl.DER_cert_to_PEM_cert(content).encode()]}


def _parts(chunks: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Their bytes, _ENCRYPTED_BYTES at a time."""
    joined: list[bytes | memoryview] = []
    room = _ENCRYPTED_BYTES
    for chunk in chunks:
        rest = memoryview(chunk)
        while len(rest) >= room:
            joined.append(rest[:room])
            yield joined[0] if len(joined) == 1 else b"".join(joined)
            rest, joined, room = rest[room:], [], _ENCRYPTED_BYTES
        if rest:
            joined.append(rest)
            room -= len(rest)
    if joined:
        yield b"".join(joined)


def server_context(chain: bytes, key: bytes, roots: bytes | None) -> ssl.SSLContext:
    """Shows this certificate, all in PEM; with `roots` it asks peers for one of theirs. It is TLS 1.3 without tickets,
    so no connection goes on with the session of an earlier one, whose certificate may have ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    # The client chooses among all groups that are allowed, and some take a server a third of a second (ffdhe8192).
    context.set_ecdh_curve("prime256v1")
    context.set_alpn_protocols([_PROTOCOL])
    with _readable(key + b"\n" + chain) as path:
        context.load_cert_chain(path)
    if roots is not None:
        context.load_verify_locations(cadata=roots.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextlib.contextmanager
def _readable(secret: bytes) -> Generator[Path]:
    """Python takes a key from a file alone. This one is in memory."""
    number = os.memfd_create("key")
    try:
        os.write(number, secret)
        yield Path(f"/proc/self/fd/{number}")
    finally:
        os.close(number)
