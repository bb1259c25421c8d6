"""How kazoo gets its thread, its socket and its callbacks here.

kazoo has one thread for a connection, and by default two more for callbacks, and connects again by itself. Here its
callbacks run on the one thread, and a handler makes one connection, and no other.
"""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback

from leasehold.limits.units import SECOND_NS
from leasehold.limits.zookeeper import ZOOKEEPER_ANSWER_BYTES_MAX
from leasehold.metastorage.zookeeper.failures import why_not_connected


class _BoundedSocket(socket.socket):
    """kazoo asks for all that an answer says to have, and keeps it."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        _check_answer(bufsize)
        return super().recv(bufsize, flags)


class _BoundedTlsSocket(ssl.SSLSocket):
    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        _check_answer(buflen)
        return super().recv(buflen, flags)


def _check_answer(size: int) -> None:
    if size > ZOOKEEPER_ANSWER_BYTES_MAX:
        raise ConnectionAbortedError(f"an answer of {size} bytes")


class OneConnection(SequentialThreadingHandler):
    """The handler of one client of kazoo. `ended` is called on the thread when it ends."""

    def __init__(self, context: ssl.SSLContext | None, timeout_ns: int, ended: Callable[[], None]) -> None:
        super().__init__()
        self.reason = "the connection broke"
        """Why there is no connection."""
        self._context = context
        self._timeout_ns = timeout_ns
        self._ended = ended
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_severed = False
        """Whether it was ended from here; the thread notices later."""

    def start(self) -> None:
        """Without threads of its own: kazoo then calls back at once."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> threading.Thread:
        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the thread is kazoo's; what waits is told that it ended
                self.reason = f"kazoo failed: {type(error).__name__}"
            finally:
                self._ended()

        thread = threading.Thread(target=run, name="zookeeper", daemon=True)
        thread.start()
        return thread

    def dispatch_callback(self, callback: Callback) -> None:
        callback.func(*callback.args)

    def create_connection(self, address: tuple[str, int], hostname: str = "", **_: object) -> socket.socket:
        with self._lock:
            if self._socket is not None or self.is_severed:
                raise ConnectionAbortedError("this connection is not made again")
        try:
            made = self._connect(address, hostname)
        except OSError as error:
            self.reason = why_not_connected(error)
            raise
        with self._lock:
            self._socket = made
        if self.is_severed:
            self.sever()
        return made

    def _connect(self, address: tuple[str, int], hostname: str) -> socket.socket:
        made = _BoundedSocket(fileno=socket.create_connection(address, self._timeout_ns / SECOND_NS).detach())
        try:
            made.settimeout(self._timeout_ns / SECOND_NS)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return made
            self._context.sslsocket_class = _BoundedTlsSocket
            return self._context.wrap_socket(made, server_hostname=hostname)
        except BaseException:
            made.close()
            raise

    def select(self, rlist: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        # What TLS has decrypted already does not make the socket readable.
        waiting = [one for one in rlist if isinstance(one, ssl.SSLSocket) and one.pending()]
        return (waiting, [], []) if waiting else super().select(rlist, *args, **kwargs)

    def sever(self) -> None:
        """Ends the connection at once, and with it the thread; idempotent."""
        with self._lock:
            self.is_severed = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it has ended already
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
