"""The sockets of this process, as the kernel knows them.

Python's own calls let go of the interpreter lock. In a busy process a thread gets it back only milliseconds later, and
a look at fifty sockets took a second. These calls keep it, since each takes less than a microsecond.
"""

import ctypes
import errno
import fcntl
import ipaddress
import os
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_SO_COOKIE: Final = 57
"""A number that no other socket of the machine ever has (asm-generic/socket.h)."""
_COOKIE: Final = struct.Struct("=Q")
_MOVED: Final = struct.Struct("=120xQQ")
"""Where `tcp_info` has the bytes that were sent and arrived, and those that have come (linux/tcp.h)."""
_FLAG: Final = struct.Struct("=i")
_FAMILY: Final = struct.Struct("=H")
_PORT: Final = struct.Struct("!2xH")
"""Of a `sockaddr`."""
_ADDRESSES: Final = {socket.AF_INET: slice(4, 8), socket.AF_INET6: slice(8, 24)}
_NOBODY: Final = bytes(16)
"""An address of no family. A connection that is connected there ends, and what has come on it is thrown away
(connect(2))."""
_NEW_FILES: Final = 256
"""The kernel gives the lowest free number to a new file. More of them between two looks are seen later."""
_LIBC: Final = ctypes.PyDLL(None)


def _inode(number: int) -> int:
    """What a cookie is for where the kernel has none (gVisor); 0 for what is no socket."""
    try:
        found = os.fstat(number)
    except OSError:
        return 0
    return found.st_ino if stat.S_ISSOCK(found.st_mode) else 0


def _has_cookies() -> bool:
    try:
        with socket.socket() as one:
            return any(one.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, _COOKIE.size))
    except OSError:
        return False


_HAS_COOKIES: Final = _has_cookies()


class FarEnd(NamedTuple):
    """The other end of a connection."""

    address: str
    port: int


class OwnSockets:
    """For one thread at a time. A file may be closed at any moment, and its number given to another one: so a socket is
    told by its cookie."""

    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(256)
        self._size = ctypes.c_uint32()
        self._to_size = ctypes.byref(self._size)
        self._most = 0
        """The highest number of a file at the last look."""

    def cookies(self) -> Iterator[tuple[int, int]]:
        """The cookie and the number of each socket."""
        most = 0
        for number in range(self._most + _NEW_FILES):
            if cookie := self.cookie(number):
                most = number
                yield cookie, number
            elif _LIBC.fcntl(number, fcntl.F_GETFD) >= 0:
                most = number
        self._most = most

    def cookie(self, number: int) -> int:
        """0 for what is no socket."""
        if not _HAS_COOKIES:
            return _inode(number)
        self._size.value = _COOKIE.size
        if _LIBC.getsockopt(number, socket.SOL_SOCKET, _SO_COOKIE, self._bytes, self._to_size):
            return 0
        return _COOKIE.unpack_from(self._bytes)[0]

    def listening(self, ports: frozenset[int]) -> list[int]:
        """The numbers of the sockets that listen at these."""
        most, sockets = 0, list(self.cookies())
        while most != self._most:  # a look goes little further than the one before
            most, sockets = self._most, list(self.cookies())
        return [number for _, number in sockets if self.port(number) in ports and self._listens(number)]

    def _listens(self, number: int) -> bool:
        self._size.value = _FLAG.size
        failed = _LIBC.getsockopt(number, socket.SOL_SOCKET, socket.SO_ACCEPTCONN, self._bytes, self._to_size)
        return not failed and _FLAG.unpack_from(self._bytes)[0] == 1

    def moved(self, number: int) -> tuple[int, int]:
        """How many bytes a connection has sent that arrived, and how many have come."""
        self._size.value = _MOVED.size
        failed = _LIBC.getsockopt(number, socket.IPPROTO_TCP, socket.TCP_INFO, self._bytes, self._to_size)
        if failed or self._size.value < _MOVED.size:
            return 0, 0
        sent, received = _MOVED.unpack_from(self._bytes)
        return sent, received

    def far_end(self, number: int) -> FarEnd | None:
        """None for a socket without a peer."""
        return self._end(_LIBC.getpeername, number)

    def port(self, number: int) -> int:
        """Of this end; 0 for a socket without one."""
        near = self._end(_LIBC.getsockname, number)
        return 0 if near is None else near.port

    def _end(self, call: Callable[..., int], number: int) -> FarEnd | None:
        self._size.value = len(self._bytes)
        if call(number, self._bytes, self._to_size):
            return None
        told = self._bytes.raw
        part = _ADDRESSES.get(_FAMILY.unpack_from(told)[0])
        return None if part is None else FarEnd(plain(ipaddress.ip_address(told[part])), _PORT.unpack_from(told)[0])

    def shut_down(self, number: int, cookie: int) -> bool:
        """Whether it was still this socket, and open. What is still in the kernel, of both ends, is thrown away. Raises
        `OSError` with EMFILE if there is no file left to hold it by."""
        held = _LIBC.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 0)
        if held < 0:
            if self.cookie(number) == cookie:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return False
        try:
            if self.cookie(held) != cookie:
                return False
            was_open = not _LIBC.shutdown(held, socket.SHUT_RDWR)
            _LIBC.connect(held, _NOBODY, len(_NOBODY))  # also if the peer has reset it: what came before can be read
            return was_open
        finally:
            _LIBC.close(held)


def plain(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """One of IPv4 as itself, also where it was said in IPv6."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
