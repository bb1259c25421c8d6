"""What a server sends: control first, then data in turns, as the windows of the peer allow."""

import pytest
from tests.unit.wire.http2.frames_read import frames_in

from leasehold.limits.http2 import SEND_AHEAD_BYTES
from leasehold.wire.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    NO_ERROR,
    PING,
    RST_STREAM,
    WINDOW_DEFAULT,
    WORD,
    ConnectionFailed,
    frame,
)
from leasehold.wire.http2.outgoing import OutgoingFrames
from leasehold.wire.http2.streams import CallStream

MOST = 1 << 20


def stream(number=1, window=WINDOW_DEFAULT, *, ended=True):
    made = CallStream(number, window, 0)
    made.remote_ended = ended
    return made


def taken(out, most=MOST):
    return frames_in(b"".join(out.take(most)))


def test_an_answer_is_headers_data_and_trailers():
    out, call = OutgoingFrames(), stream()
    out.headers(call, b"h")
    out.data(call, memoryview(b"ab"), memoryview(b"c"))
    assert out.has_any()
    assert taken(out) == [(HEADERS, END_HEADERS, 1, b"h"), (DATA, 0, 1, b"abc")]
    assert not out.has_any()
    out.trailers(call, b"t")
    assert taken(out) == [(HEADERS, END_HEADERS | END_STREAM, 1, b"t")]
    assert out.ended == [call]


def test_an_answer_before_the_end_of_the_question_says_that_the_rest_need_not_come():
    out, call = OutgoingFrames(), stream(ended=False)
    out.trailers(call, b"t")
    assert taken(out)[1:] == [(RST_STREAM, 0, 1, WORD.pack(NO_ERROR))]


def test_control_goes_ahead_of_what_is_queued():
    out, call = OutgoingFrames(), stream()
    out.data(call, memoryview(b"abc"))
    out.control(frame(PING, 1, 0, bytes(8)))
    assert [kind for kind, *_ in taken(out)] == [PING, DATA]


def test_data_waits_for_the_window_of_its_call():
    out, call = OutgoingFrames(), stream(window=2)
    out.data(call, memoryview(b"abcde"))
    out.trailers(call, b"t")
    assert taken(out) == [(DATA, 0, 1, b"ab")]
    assert not out.has_any()
    assert out.may_send_on(call, 1)
    assert taken(out) == [(DATA, 0, 1, b"c")]
    out.peer_window_is(WINDOW_DEFAULT + 2, [call])
    assert [payload for _, _, _, payload in taken(out)] == [b"de", b"t"]


def test_data_waits_for_the_window_of_all_calls_and_ends_do_not():
    out, large, small = OutgoingFrames(), stream(1, MOST), stream(3)
    out.data(large, memoryview(bytes(WINDOW_DEFAULT + 1)))
    out.trailers(large, b"t")
    assert sum(len(payload) for _, _, _, payload in taken(out)) == WINDOW_DEFAULT
    assert not out.has_any()
    out.headers(small, b"h")
    assert [kind for kind, *_ in taken(out)] == [HEADERS]
    out.may_send(1)
    assert [payload for _, _, _, payload in taken(out)] == [b"\0", b"t"]


def test_a_status_does_not_wait_for_the_data_of_others():
    out, large, small = OutgoingFrames(), stream(1, MOST), stream(3)
    out.data(large, memoryview(bytes(WINDOW_DEFAULT + 1)))
    taken(out)
    out.trailers(small, b"t")
    assert out.has_any()
    assert taken(out) == [(HEADERS, END_HEADERS | END_STREAM, 3, b"t")]


def test_a_peer_may_make_its_window_smaller():
    out, call = OutgoingFrames(), stream()
    out.data(call, memoryview(b"abc"))
    out.peer_window_is(0, [call])
    assert taken(out) == []
    assert call.send_window == 0
    out.peer_window_is(2, [call])
    assert taken(out) == [(DATA, 0, 1, b"ab")]


def test_what_waits_to_be_taken_is_counted():
    out = OutgoingFrames()
    said = frame(PING, 1, 0, bytes(8))
    out.control(said)
    assert out.control_bytes == len(said)
    taken(out)
    assert out.control_bytes == 0


def test_calls_have_turns():
    out, calls = OutgoingFrames(), [stream(1, MOST), stream(3, MOST)]
    for call in calls:
        out.data(call, memoryview(bytes(2 * out.peer_frame_max)))
    assert [number for _, _, number, _ in taken(out)] == [1, 3, 1, 3]


def test_no_more_is_taken_than_was_asked_for():
    out, call = OutgoingFrames(), stream()
    out.data(call, memoryview(b"abcdef"))
    assert [taken(out, 4)[0][3], taken(out, 4)[0][3]] == [b"abcd", b"ef"]


def test_a_call_has_room_again_once_little_of_it_is_queued():
    out, call = OutgoingFrames(), stream(window=MOST)
    out.may_send(MOST)
    out.data(call, memoryview(bytes(SEND_AHEAD_BYTES + 10)))
    taken(out, 5)
    assert out.drained == []
    taken(out, 5)
    assert out.drained == [call]


def test_of_a_call_that_is_taken_back_nothing_goes():
    out, call, other = OutgoingFrames(), stream(), stream(3)
    out.data(call, memoryview(b"abc"))
    out.data(other, memoryview(b"d"))
    out.forget(call)
    out.data(call, memoryview(b"abc"))
    out.trailers(call, b"t")
    assert taken(out) == [(DATA, 0, 3, b"d")]


def test_windows_are_bounded():
    out, call = OutgoingFrames(), stream()
    assert not out.may_send_on(call, 2**31 - 1)
    for more in (0, 2**31 - 1):
        with pytest.raises(ConnectionFailed):
            OutgoingFrames().may_send(more)
    with pytest.raises(ConnectionFailed):
        out.peer_window_is(2**31, [])
