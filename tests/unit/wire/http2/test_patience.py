"""How long a server bears the silence of a peer."""

from leasehold.limits.requests import HANDSHAKE_NS
from leasehold.limits.sessions import KEEPALIVE_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.http2.patience import PeerPatience, PeerVerdict

IDLE_NS, QUIET_NS, ANSWER_NS = 60 * SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS


def patience() -> PeerPatience:
    return PeerPatience(0, idle_ns=IDLE_NS, quiet_ns=QUIET_NS, answer_ns=ANSWER_NS)


def look(one: PeerPatience, now_ns: int, calls: int = 0, begun: int = 0, *, known: bool = True) -> PeerVerdict:
    return one.look(now_ns, is_open=True, has_acknowledged=known, calls=calls, begun=begun)


def test_a_peer_has_a_time_to_begin() -> None:
    one = patience()
    assert one.look(HANDSHAKE_NS, is_open=False, has_acknowledged=False, calls=0, begun=0) is PeerVerdict.GOES_ON
    assert one.look(HANDSHAKE_NS + 1, is_open=False, has_acknowledged=False, calls=0, begun=0) is PeerVerdict.ABORT
    assert look(one, HANDSHAKE_NS, known=False) is PeerVerdict.GOES_ON
    assert look(one, HANDSHAKE_NS + 1, known=False) is PeerVerdict.REFUSE
    assert look(one, HANDSHAKE_NS + 1) is PeerVerdict.GOES_ON


def test_a_silent_peer_with_a_call_is_asked_and_then_given_up() -> None:
    one = patience()
    assert look(one, QUIET_NS, 1, 1) is PeerVerdict.GOES_ON
    assert look(one, QUIET_NS + 1, 1, 1) is PeerVerdict.ASK
    assert look(one, QUIET_NS + 1 + ANSWER_NS, 1, 1) is PeerVerdict.GOES_ON
    one.heard(QUIET_NS + 2)
    assert look(one, QUIET_NS + 2 + ANSWER_NS, 1, 1) is PeerVerdict.ASK
    assert look(one, QUIET_NS + 3 + 2 * ANSWER_NS, 1, 1) is PeerVerdict.ABORT


def test_a_connection_without_a_call_is_warned_and_then_closed() -> None:
    one = patience()
    one.heard(IDLE_NS)
    assert look(one, IDLE_NS) is PeerVerdict.GOES_ON, "what it says besides calls keeps it open no longer"
    assert look(one, IDLE_NS + 1) is PeerVerdict.WARN
    assert look(one, IDLE_NS + 1 + KEEPALIVE_TIMEOUT_NS) is PeerVerdict.GOES_ON
    assert look(one, IDLE_NS + 2 + KEEPALIVE_TIMEOUT_NS) is PeerVerdict.CLOSE


def test_calls_between_two_looks_count() -> None:
    one = patience()
    assert look(one, IDLE_NS, 0, 5) is PeerVerdict.GOES_ON
    assert look(one, 2 * IDLE_NS, 0, 5) is PeerVerdict.GOES_ON
    assert look(one, 2 * IDLE_NS + 1, 0, 6) is PeerVerdict.GOES_ON
    assert look(one, 3 * IDLE_NS + 2, 0, 6) is PeerVerdict.WARN
