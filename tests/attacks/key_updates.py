"""A client of TLS 1.3 that changes its keys again and again, which Python's own can't do."""

import contextlib
import ctypes
import socket
import ssl
from typing import Final

_LIBSSL: Final = ctypes.CDLL("libssl.so.3")
"""The one that Python has loaded, if it has this one."""
_REQUESTED: Final = 1
"""The other side is to change its keys too."""
_AFTER_HEAD: Final = object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)
"""Where Python's object has OpenSSL's: after its head, and the socket."""


class KeyUpdates:
    """Over a connection that speaks nothing yet."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._connection = connection
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)
        self._shake()
        inner = self._tls._sslobj  # pyright: ignore[reportAttributeAccessIssue] Python has no other way
        self._ssl = ctypes.c_void_p.from_address(id(inner) + _AFTER_HEAD)

    def _shake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._connection.sendall(self._out.read())
                self._in.write(self._connection.recv(65_536))
            else:
                self._connection.sendall(self._out.read())
                return

    def send(self, times: int) -> None:
        """Asks so many times for new keys of both sides."""
        for _ in range(times):
            assert _LIBSSL.SSL_key_update(self._ssl, _REQUESTED) == 1
            assert _LIBSSL.SSL_do_handshake(self._ssl) == 1
        self._connection.sendall(self._out.read())
        with contextlib.suppress(TimeoutError):
            self._connection.settimeout(0.01)
            self._in.write(self._connection.recv(1 << 20))
        self._connection.settimeout(1)
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.read(1)
