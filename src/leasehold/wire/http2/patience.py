"""How long a server bears the silence of a peer. It has no clock."""

from enum import Enum, auto

from leasehold.limits.requests import HANDSHAKE_NS
from leasehold.limits.sessions import KEEPALIVE_TIMEOUT_NS


class PeerVerdict(Enum):
    """What is to be done with a connection."""

    GOES_ON = auto()
    ASK = auto()
    """Whether the peer is there."""
    WARN = auto()
    """The peer is to begin no further call here."""
    CLOSE = auto()
    """It was not used."""
    REFUSE = auto()
    """The peer has not acknowledged the settings."""
    ABORT = auto()
    """Nobody is there."""


class PeerPatience:
    """With one connection, whose TLS is done once it `is_open`. Without a call it has `idle_ns`. With one, a peer that
    has said nothing for `quiet_ns` is asked, and has `answer_ns` to answer."""

    def __init__(self, now_ns: int, *, idle_ns: int, quiet_ns: int, answer_ns: int) -> None:
        self._idle_ns = idle_ns
        self._quiet_ns = quiet_ns
        self._answer_ns = answer_ns
        self._made_ns = self._heard_ns = self._used_ns = now_ns
        self._begun = 0
        """Calls, at the last look."""
        self._warned_ns: int | None = None
        self._asked_ns: int | None = None
        """When the peer was asked, if it has said nothing since."""

    def heard(self, now_ns: int) -> None:
        """The peer has said something."""
        self._heard_ns, self._asked_ns = now_ns, None

    def look(self, now_ns: int, *, is_open: bool, has_acknowledged: bool, calls: int, begun: int) -> PeerVerdict:
        """`begun` calls have begun in all, and so many `calls` are under way."""
        if calls or begun > self._begun:
            self._begun, self._used_ns = begun, now_ns
        if not (is_open and has_acknowledged) and now_ns - self._made_ns > HANDSHAKE_NS:
            return PeerVerdict.REFUSE if is_open else PeerVerdict.ABORT
        if not is_open:
            return PeerVerdict.GOES_ON
        return self._in_use(now_ns) if calls else self._idle(now_ns)

    def _in_use(self, now_ns: int) -> PeerVerdict:
        if self._asked_ns is not None:
            return PeerVerdict.ABORT if now_ns - self._asked_ns > self._answer_ns else PeerVerdict.GOES_ON
        if now_ns - self._heard_ns <= self._quiet_ns:
            return PeerVerdict.GOES_ON
        self._asked_ns = now_ns
        return PeerVerdict.ASK

    def _idle(self, now_ns: int) -> PeerVerdict:
        if self._warned_ns is not None:
            return PeerVerdict.CLOSE if now_ns - self._warned_ns > KEEPALIVE_TIMEOUT_NS else PeerVerdict.GOES_ON
        if now_ns - self._used_ns <= self._idle_ns:
            return PeerVerdict.GOES_ON
        self._warned_ns = now_ns
        return PeerVerdict.WARN
