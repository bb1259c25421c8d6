"""What somebody records who is on the network between machines, or on one of them: every packet, put together again."""

import socket
import struct
import threading
from collections import defaultdict
from typing import Final, Self

from tests.netns.hosts import Host

PACKET_BYTES_MAX: Final = 1 << 17
"""Of a packet that the kernel has not cut into those of the wire."""
BUFFER_BYTES: Final = 256 << 20
POLL_SECONDS: Final = 0.05

_SO_RCVBUFFORCE, _SOL_PACKET, _PACKET_STATISTICS = 33, 263, 6
_SYN: Final = 0x02

Way = tuple[str, int, str, int]
"""Address and port of the sender and of the receiver."""


class Sniffer:
    """Records what passes a host until the end of the block; a context manager."""

    def __init__(self, host: Host) -> None:
        self._socket = host.recorder()
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
        self._socket.settimeout(POLL_SECONDS)
        self._stopped = threading.Event()
        self._packets: list[bytes] = []
        self._thread = threading.Thread(target=self._record)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        with self._socket:
            statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        lost = struct.unpack("II", statistics)[1]
        assert lost == 0, f"{lost} packets were not recorded"

    def recorded(self) -> "Recorded":
        """All packets of the block, once it has ended."""
        return Recorded(self._packets)

    def _record(self) -> None:
        while True:
            if is_last := self._stopped.is_set():
                self._socket.setblocking(False)
            try:
                packet, (_, _, kind, *_) = self._socket.recvfrom(PACKET_BYTES_MAX)
            except (TimeoutError, BlockingIOError):
                if is_last:
                    return
                continue
            if kind != socket.PACKET_OUTGOING:  # what leaves a router has come in before
                self._packets.append(packet)


class Recorded:
    """Packets, with those of TCP joined to streams: a word may begin in one packet and end in the next."""

    def __init__(self, packets: list[bytes]) -> None:
        self.streams: list[tuple[Way, bytes]] = []
        """What was sent one way on each connection, in order."""
        self.others: list[bytes] = []
        """Packets of UDP and whatever else there was, with their headers."""
        parts: defaultdict[Way, list[dict[int, bytes]]] = defaultdict(list)
        for packet in packets:
            if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP:
                _add(parts, packet)
            else:
                self.others.append(packet)
        self.streams = [(way, _joined(one)) for way, connections in parts.items() for one in connections]

    def has(self, word: bytes) -> bool:
        """Whether somebody who reads all of this finds the word."""
        return any(word in one for _, one in self.streams) or any(word in one for one in self.others)


def _add(parts: defaultdict[Way, list[dict[int, bytes]]], packet: bytes) -> None:
    ip_bytes, total_bytes = (packet[0] & 15) * 4, int.from_bytes(packet[2:4])
    segment = packet[ip_bytes : total_bytes or None]
    sender_port, receiver_port, number = struct.unpack_from(">HHI", segment)
    way = (socket.inet_ntoa(packet[12:16]), sender_port, socket.inet_ntoa(packet[16:20]), receiver_port)
    if segment[13] & _SYN:
        if not parts[way] or number not in parts[way][-1]:  # else it was sent again
            parts[way].append({number: b""})
        return
    payload = segment[(segment[12] >> 4) * 4 :]
    if not payload:
        return
    if not parts[way]:
        parts[way].append({number - 1: b""})  # it was open before: what is left of it begins here
    if len(payload) > len(parts[way][-1].get(number, b"")):
        parts[way][-1][number] = payload


def _joined(parts: dict[int, bytes]) -> bytes:
    """The stream from the number of its SYN on. A packet that never arrived may leave a gap at the end."""
    first = next(iter(parts)) + 1
    stream = bytearray()
    for number in sorted(parts, key=lambda one: (one - first) % (1 << 32)):
        at = (number - first) % (1 << 32)
        if at <= len(stream):
            stream += parts[number][len(stream) - at :]
    return bytes(stream)
