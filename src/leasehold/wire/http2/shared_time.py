"""A connection whose peer shares a server's time with others (`wire/http2/turns.py`). What comes is looked at in
pieces, each of which counts, or waits for its turn."""

from abc import abstractmethod
from typing import Any, Protocol

from leasehold.limits.http2 import (
    CALL_NS,
    PIECE_BYTES,
    RECEIVE_BYTES,
    RECEIVE_BYTES_MIN,
    RECEIVE_NS,
    WAITING_BYTES_MAX,
)
from leasehold.wire.http2.turns import FairTurns
from leasehold.wire.known_peers import PeerStanding


class TakesTurns(Protocol):
    """A server."""

    turns: FairTurns[Any]
    waiting_bytes: int

    def now_ns(self) -> int: ...

    def turn_soon(self) -> None: ...


class SharesTime:
    """What is common to all such connections."""

    def __init__(self, server: TakesTurns, host: str) -> None:
        self._time = server
        self.host = host
        """Its peer, as in `wire.peers`."""
        self.standing = PeerStanding.NONE
        self.begun_now = 0
        """Calls that have begun with what is looked at now."""
        self._receive_bytes = RECEIVE_BYTES_MIN
        """What is read at a time."""
        self._unread: bytes | None = None
        """What has come and waits for its turn; nothing more is read."""

    @abstractmethod
    def take(self, came: memoryview) -> bool:
        """Deals with it, or with a part; whether it keeps a part for another time."""

    @abstractmethod
    def stop_reading(self) -> None:
        """Reads nothing more, and waits for its turn."""

    @abstractmethod
    def has_ended(self) -> bool: ...

    @property
    def is_of_member(self) -> bool:
        """Whether what comes waits for no others."""
        return self.standing is PeerStanding.MEMBER

    @property
    def is_waiting(self) -> bool:
        return self._unread is not None

    @property
    def _is_looked_at_now(self) -> bool:
        """Whether what comes now does not wait."""
        return self.is_of_member or self._time.turns.may_go()

    def receive_bytes(self) -> int:
        """How many may be read now."""
        size = self._receive_bytes
        is_too_much = not self._is_looked_at_now and self._time.waiting_bytes + size > WAITING_BYTES_MAX
        return RECEIVE_BYTES_MIN if is_too_much else size

    def receive(self, came: memoryview) -> None:
        if self._is_looked_at_now:
            self.look_at(came)
        else:
            self._wait_with(came)

    def look_at(self, came: memoryview) -> None:
        is_whole, spent_ns, has_more = len(came) == self._receive_bytes, 0, True
        while has_more and not self.has_ended():
            piece, came = came[:PIECE_BYTES], came[PIECE_BYTES:]
            spent_ns, keeps = self._look_at_piece(piece)
            has_more = keeps or bool(came)
            if spent_ns > RECEIVE_NS:
                self._receive_bytes, is_whole = max(RECEIVE_BYTES_MIN, self._receive_bytes // 2), False
            if has_more and not self._is_looked_at_now:
                self._wait_with(came)
                return
        if is_whole and spent_ns < RECEIVE_NS // 4:
            self._receive_bytes = min(RECEIVE_BYTES, 2 * self._receive_bytes)

    def taken_up(self) -> bytes | None:
        """What has waited, if anything has."""
        unread, self._unread = self._unread, None
        self._time.waiting_bytes -= len(unread or b"")
        return unread

    def spend(self, spent_ns: int, *, is_of_turn: bool = True) -> None:
        """The server has worked for so long on what the peer has said, or threads beside its loop have."""
        if not self.is_of_member:
            self._time.turns.spend(self.host, spent_ns, is_of_turn=is_of_turn)
            self._time.turn_soon()

    def give_back(self, unused_ns: int) -> None:
        """So much of what the peer has spent was not used."""
        if not self.is_of_member:
            self._time.turns.give_back(self.host, unused_ns)

    def _wait_with(self, came: memoryview) -> None:
        self._unread = bytes(came)
        self._time.waiting_bytes += len(came)
        self.stop_reading()

    def _look_at_piece(self, piece: memoryview) -> tuple[int, bool]:
        """Answers what it has cost, in ns, and what `take` does."""
        began_ns, self.begun_now = self._time.now_ns(), 0
        keeps = self.take(piece)
        spent_ns = self._time.now_ns() - began_ns + CALL_NS * self.begun_now
        self.spend(spent_ns)
        return spent_ns, keeps
