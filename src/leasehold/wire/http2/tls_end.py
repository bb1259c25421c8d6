"""TLS between two buffers in memory: OpenSSL, without a socket."""

import contextlib
import os
import ssl
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

RECORD_BYTES: Final = 16 * 1024
_JOINED_BYTES_MAX: Final = 64 * 1024
_PROTOCOL: Final = "h2"


class TlsEnd:
    """A server's end of one connection."""

    __slots__ = ("_in", "_out", "_tls", "is_open")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.is_open = False
        """Whether the handshake is done."""

    def came(self, ciphertext: memoryview) -> None:
        self._in.write(ciphertext)

    def shake(self) -> bool:
        """Goes on with the handshake; whether it is done. Raises `ssl.SSLError`."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
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
                return at, False
            except ssl.SSLZeroReturnError:
                return at, True
            if not size:
                return at, True
            at += int(size)
        return at, False

    def write(self, chunks: Iterable[bytes | memoryview]) -> None:
        """Encrypts chunks. Small ones are joined; a large one is not copied, but for its ends."""
        small: list[bytes | memoryview] = []
        size = 0
        for chunk in chunks:
            if size + len(chunk) < _JOINED_BYTES_MAX:
                small.append(chunk)
                size += len(chunk)
                continue
            rest = -size % RECORD_BYTES
            large = memoryview(chunk)
            self._tls.write(b"".join((*small, large[:rest])))
            whole = rest + (len(large) - rest) // RECORD_BYTES * RECORD_BYTES
            self._tls.write(large[rest:whole])
            small.clear()
            small.append(large[whole:])
            size = len(small[0])
        if size:
            self._tls.write(b"".join(small))

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
