"""The server's end of HTTP/2: what bytes mean, in any pieces, and what it does not bear."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.http2.frames_read import frames_in

from leasehold.limits.http2 import (
    ALLOWANCE,
    CALLS_AT_ONCE,
    CONNECTION_WINDOW_BYTES,
    DATA_FRAME_BYTES_MAX,
    HEADER_BLOCK_BYTES_MAX,
)
from leasehold.limits.requests import CALL_HEADERS_MAX
from leasehold.wire.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTING,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_DEFAULT,
    WINDOW_UPDATE,
    WORD,
    ConnectionFailed,
    frame,
)
from leasehold.wire.http2.headers import header_block
from leasehold.wire.http2.server_end import ServerEnd
from leasehold.wire.http2.streams import CallBegun, CallReset, Http2Limits, PieceCame

LIMITS = Http2Limits(streams_max=3, stream_window=4_096)
SAID = [(b":method", b"POST"), (b":path", b"/a/b"), (b"content-type", b"application/grpc")]
BLOCK = header_block(SAID)
INDEXED = b"\x83\x44\x04/a/b\x5f\x10application/grpc"
"""The same, noted in the table: the next block may say `\x83\xbf\xbe`."""
OPEN = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)
LARGE = b"x" * 4_096
CALM = frame(PING, 0, 0, bytes(8))


def opened(content=b"", *, limits=LIMITS, acknowledged=True):
    """An end that has received this after what a client begins with, and the events of it."""
    end = ServerEnd(limits)
    events = end.receive(memoryview((OPEN if acknowledged else PREFACE + frame(SETTINGS, 0, 0)) + content))
    while end.has_more:
        events += end.receive(memoryview(b""))
    end.take(1 << 20)
    return end, events


def opened_only(content):
    """An end that has received this too, and has sent nothing of what it means."""
    end, _ = opened()
    end.receive(memoryview(content))
    return end


def failure_of(content, **how):
    with pytest.raises(ConnectionFailed) as caught:
        opened(content, **how)
    return caught.value.code


def meaning(end, pieces):
    """The events of what came in these pieces, with data that follows each other joined."""
    found = []
    for one in pieces:
        for event in end.receive(memoryview(one)):
            match event:
                case PieceCame(stream, piece, ended):
                    if found and found[-1][:2] == ["piece", stream.id] and not found[-1][3]:
                        found[-1][2] += bytes(piece)
                        found[-1][3] = ended
                    else:
                        found.append(["piece", stream.id, bytes(piece), ended])
                case CallBegun(stream, headers):
                    found.append(["begun", stream.id, headers])
                case CallReset(stream):
                    found.append(["reset", stream.id])
    return found, b"".join(end.take(1 << 20))


TALK = (
    OPEN
    + frame(HEADERS, END_HEADERS, 1, INDEXED)
    + frame(DATA, 0, 1, b"a" * 3_000)
    + frame(DATA, PADDED, 1, b"\x05hello" + bytes(5))
    + frame(PING, 0, 0, b"12345678")
    + frame(HEADERS, HAS_PRIORITY, 3, bytes(5) + b"\x83")
    + frame(CONTINUATION, END_HEADERS, 3, b"\xbf\xbe")
    + frame(DATA, END_STREAM, 3, b"xyz")
    + frame(WINDOW_UPDATE, 0, 1, WORD.pack(256))
    + frame(RST_STREAM, 0, 1, WORD.pack(8))
    + frame(HEADERS, END_HEADERS | END_STREAM, 5, b"\x83\xbf\xbe")
)


def test_what_a_client_says_is_understood():
    found, out = meaning(ServerEnd(LIMITS), [TALK])
    assert found == [
        ["begun", 1, SAID],
        ["piece", 1, b"a" * 3_000 + b"hello", False],
        ["begun", 3, SAID],
        ["piece", 3, b"xyz", True],
        ["reset", 1],
        ["begun", 5, SAID],
    ]
    kinds = [(kind, flags) for kind, flags, _, _ in frames_in(out)]
    assert kinds == [(SETTINGS, 0), (SETTINGS, ACK), (WINDOW_UPDATE, 0), (PING, ACK)]


@given(st.lists(st.integers(0, len(TALK)), max_size=12).map(sorted))
def test_it_means_the_same_in_any_pieces(cuts):
    whole = meaning(ServerEnd(LIMITS), [TALK])
    pieces = [TALK[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(TALK)], strict=True)]
    assert meaning(ServerEnd(LIMITS), pieces) == whole


def test_it_means_the_same_byte_by_byte():
    assert meaning(ServerEnd(LIMITS), [TALK[at : at + 1] for at in range(len(TALK))]) == meaning(
        ServerEnd(LIMITS), [TALK]
    )


@given(st.data())
def test_broken_bytes_end_the_connection_and_raise_nothing_else(data):
    broken = bytearray(TALK)
    for at in data.draw(st.lists(st.integers(len(PREFACE), len(TALK) - 1), min_size=1, max_size=5)):
        broken[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ConnectionFailed):
        ServerEnd(LIMITS).receive(memoryview(broken))


KINDS = st.integers(0, 10)
PAYLOADS = st.one_of(st.binary(max_size=30), st.just(BLOCK), st.just(b""))
FRAMES = st.builds(frame, KINDS, st.integers(0, 255), st.sampled_from((0, 1, 1, 3, 5)), PAYLOADS)


@given(st.lists(FRAMES, max_size=8))
def test_any_frames_end_the_connection_or_are_borne(said):
    with contextlib.suppress(ConnectionFailed):
        opened(b"".join(said))


@pytest.mark.parametrize("begin", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"\x16\x03\x01"])
def test_only_http2_is_understood(begin):
    with pytest.raises(ConnectionFailed):
        ServerEnd(LIMITS).receive(memoryview(begin))


# ---------------------------------------------------------------- headers


@pytest.mark.parametrize("acknowledged", [True, False])
@pytest.mark.parametrize(
    "frames",
    [
        frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, 0, 1, b"\0\x01x\0" * 500) * 5,
        frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, 0, 1, b""),
        frame(HEADERS, END_HEADERS, 1, bytes(HEADER_BLOCK_BYTES_MAX + 1))[:9],
        frame(HEADERS, END_HEADERS, 1, BLOCK + b"\0\x01x\0" * CALL_HEADERS_MAX),
        frame(HEADERS, END_HEADERS, 1, b"\x40\x01x\x7f\xa1\x1e" + b"v" * 4_000 + b"\xbe" * 5),
        frame(PING, 0, 0, bytes(HEADER_BLOCK_BYTES_MAX + 1))[:9],
    ],
    ids=["without end", "empty", "a frame that says it is long", "many", "large by the table", "another frame"],
)
def test_headers_are_bounded_from_the_first_byte(frames, acknowledged):
    assert failure_of(frames, acknowledged=acknowledged) == ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "block", [b"\x20" * 3 + BLOCK, b"\x3f\xe1\xff\x03" * 3 + BLOCK, b"\xff", b"\xbe", b"\x40\x05x"]
)
def test_headers_that_cant_be_read_end_the_connection(block):
    with pytest.raises(ConnectionFailed):
        opened(frame(HEADERS, END_HEADERS, 1, block))


def test_a_table_may_be_resized_twice():
    _, [begun] = opened(frame(HEADERS, END_HEADERS, 1, b"\x20\x3f\xe1\x1f" + BLOCK))
    assert begun.headers == SAID


def test_a_block_that_was_read_before_means_the_same_until_the_table_changes():
    other = b"\x44\x04/x/y"
    said = [INDEXED, b"\x83\xbf\xbe", b"\x83\xbf\xbe", other, b"\x83\xbf\xbe"]
    frames = (
        frame(HEADERS, END_HEADERS, 1 + 2 * number, block) + frame(RST_STREAM, 0, 1 + 2 * number, bytes(4))
        for number, block in enumerate(said)
    )
    _, events = opened(b"".join(frames))
    heard = [one.headers for one in events if isinstance(one, CallBegun)]
    changed = [(b":method", b"POST"), (b"content-type", b"application/grpc"), (b":path", b"/x/y")]
    assert heard == [SAID, SAID, SAID, [(b":path", b"/x/y")], changed]


@pytest.mark.parametrize(
    "frames",
    [
        frame(HEADERS, END_HEADERS, 2, BLOCK),
        frame(HEADERS, END_HEADERS, 0, BLOCK),
        frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + BLOCK),
        frame(HEADERS, END_HEADERS | PADDED, 1, b""),
        frame(HEADERS, END_HEADERS, 1, BLOCK) * 2,
        frame(HEADERS, 0, 1, BLOCK) + CALM,
        frame(HEADERS, 0, 1, BLOCK) + frame(DATA, 0, 1, b"x"),
        frame(HEADERS, 0, 1, BLOCK) + frame(CONTINUATION, END_HEADERS, 3, BLOCK),
        frame(CONTINUATION, END_HEADERS, 1, BLOCK),
        frame(PUSH_PROMISE, 0, 1, bytes(4)),
        frame(DATA, 0, 1, b"x"),
        frame(DATA, 0, 0, b"x"),
        frame(RST_STREAM, 0, 1, bytes(4)),
    ],
)
def test_what_belongs_nowhere_ends_the_connection(frames):
    assert failure_of(frames) == PROTOCOL_ERROR


def test_trailers_end_a_call():
    end, [_, last] = opened(frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(HEADERS, END_HEADERS | END_STREAM, 1, b""))
    assert last == PieceCame(end.streams[1], memoryview(b""), ended=True)


# ---------------------------------------------------------------- windows


def test_more_than_the_window_of_a_call_ends_the_connection():
    begun = frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, 0, 1, LARGE)
    opened(begun)
    assert failure_of(begun + frame(DATA, 0, 1, b"x")) == FLOW_CONTROL_ERROR
    end, [event, _] = opened(begun)
    end.grant(event.stream, 10)
    assert frames_in(b"".join(end.take(0))) == [(WINDOW_UPDATE, 0, 1, WORD.pack(10))]
    end.receive(memoryview(frame(DATA, 0, 1, b"x" * 10)))


def test_a_client_that_does_not_know_our_settings_yet_may_send_as_much_as_the_protocol_says():
    begun = b"".join(frame(HEADERS, END_HEADERS, one, BLOCK) for one in (1, 3))
    most = frame(DATA, 0, 1, b"x" * 60_000) + frame(DATA, 0, 3, b"x" * (WINDOW_DEFAULT - 60_000))
    end, _ = opened(begun + most, acknowledged=False)
    assert failure_of(begun + most + frame(DATA, 0, 3, b"x"), acknowledged=False) == FLOW_CONTROL_ERROR
    end.receive(memoryview(frame(SETTINGS, ACK, 0)))
    assert frames_in(b"".join(end.take(0))) == [(WINDOW_UPDATE, 0, 0, WORD.pack(CONNECTION_WINDOW_BYTES))]
    with pytest.raises(ConnectionFailed):
        end.receive(memoryview(frame(DATA, 0, 1, b"x")))
    assert end.streams[1].receive_window < 0, "until it is granted more"


def test_the_window_of_all_calls_is_widened_again():
    end, [begun] = opened(frame(HEADERS, END_HEADERS, 1, BLOCK))
    sent = 0
    while sent <= CONNECTION_WINDOW_BYTES:
        end.grant(begun.stream, DATA_FRAME_BYTES_MAX)
        end.receive(memoryview(frame(DATA, 0, 1, bytes(DATA_FRAME_BYTES_MAX))))
        sent += DATA_FRAME_BYTES_MAX
    assert any(number == 0 for kind, _, number, _ in frames_in(b"".join(end.take(0))) if kind == WINDOW_UPDATE)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (frame(DATA, 0, 1, bytes(DATA_FRAME_BYTES_MAX + 1))[:9], FRAME_SIZE_ERROR),
        (frame(DATA, PADDED, 1, b"\x09x"), FRAME_SIZE_ERROR),
        (frame(DATA, END_STREAM, 1, b"x") + frame(DATA, 0, 1, b"x"), STREAM_CLOSED),
        (frame(WINDOW_UPDATE, 0, 1, WORD.pack(2**31 - 1)), FLOW_CONTROL_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, WORD.pack(2**31 - 1)), FLOW_CONTROL_ERROR),
        (frame(WINDOW_UPDATE, 0, 0, bytes(4)), FLOW_CONTROL_ERROR),
        (frame(WINDOW_UPDATE, 0, 1, b"x"), FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, b"x"), FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 1) * 33), FRAME_SIZE_ERROR),
        (frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 2**31)), FLOW_CONTROL_ERROR),
        (frame(SETTINGS, 0, 0, SETTING.pack(MAX_FRAME_SIZE, 1)), PROTOCOL_ERROR),
        (frame(PING, 0, 0, b"x"), FRAME_SIZE_ERROR),
    ],
)
def test_sizes_that_are_none_end_the_connection(frames, code):
    assert failure_of(frame(HEADERS, END_HEADERS, 1, BLOCK) + frames) == code


# ---------------------------------------------------------------- what is too much


def test_a_call_over_the_bound_is_refused_and_the_others_go_on():
    begun = b"".join(frame(HEADERS, END_HEADERS, one, INDEXED if one == 1 else b"\x83\xbf\xbe") for one in (1, 3, 5, 7))
    end, events = opened(begun)
    assert [one.stream.id for one in events] == [1, 3, 5]
    refused = frame(RST_STREAM, 0, 7, WORD.pack(REFUSED_STREAM))
    assert refused in b"".join(opened_only(begun).take(0))
    end.receive(memoryview(frame(RST_STREAM, 0, 3, bytes(4))))
    [again] = end.receive(memoryview(frame(HEADERS, END_HEADERS, 9, b"\x83\xbf\xbe")))
    assert again.headers == SAID, "the table has followed the refused call"
    assert end.begun == 5


@pytest.mark.parametrize(
    "said",
    [
        CALM,
        frame(SETTINGS, 0, 0),
        frame(WINDOW_UPDATE, 0, 0, WORD.pack(1)),
        frame(PRIORITY, 0, 1, bytes(5)),
        frame(DATA, 0, 1, b""),
        frame(GOAWAY, 0, 0, bytes(8)),
        frame(10, 0, 0, b""),
    ],
    ids=["pings", "settings", "windows", "priorities", "empty data", "farewells", "what nobody knows"],
)
def test_what_is_said_besides_calls_is_paid_for(said):
    end, _ = opened(frame(HEADERS, END_HEADERS, 1, BLOCK))
    with pytest.raises(ConnectionFailed) as caught:
        for _ in range(ALLOWANCE + 1):
            end.receive(memoryview(said))
    assert caught.value.code == ENHANCE_YOUR_CALM


def test_settings_cost_more_where_many_calls_get_another_window():
    limits = Http2Limits(streams_max=160, stream_window=4_096)
    begun = b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * one, BLOCK) for one in range(160))
    costs = []
    for content in (b"", begun):
        end, _ = opened(content, limits=limits)
        before = end.allowance.left
        end.receive(memoryview(frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 1))))
        costs.append(before - end.allowance.left)
    assert costs[1] == costs[0] + 10


def test_only_so_many_calls_begin_at_a_time():
    end, _ = opened(limits=Http2Limits(streams_max=100, stream_window=4_096))
    calls = b"".join(frame(HEADERS, END_HEADERS, 1 + 2 * one, BLOCK) for one in range(2 * CALLS_AT_ONCE))
    assert len(end.receive(memoryview(calls + frame(PING, 0, 0, bytes(8))[:5]))) == CALLS_AT_ONCE
    assert end.has_more
    assert len(end.receive(memoryview(b""))) == CALLS_AT_ONCE
    assert end.has_more, "a part of a frame"
    assert end.receive(memoryview(frame(PING, 0, 0, bytes(8))[5:])) == []
    assert not end.has_more


def test_data_that_is_sent_pays_for_what_the_peer_says_of_it():
    end, [begun] = opened(frame(HEADERS, END_HEADERS, 1, BLOCK))
    for _ in range(2 * ALLOWANCE):
        end.out.data(begun.stream, memoryview(b"x"))
        end.take(1_000)
        windows = frame(WINDOW_UPDATE, 0, 0, WORD.pack(1)) + frame(WINDOW_UPDATE, 0, 1, WORD.pack(1))
        end.receive(memoryview(windows))


def test_calls_that_are_begun_and_reset_are_paid_for_and_time_pays_back():
    end, _ = opened()

    def burst(first, count):
        for number in range(first, first + 2 * count, 2):
            end.receive(memoryview(frame(HEADERS, END_HEADERS, number, BLOCK) + frame(RST_STREAM, 0, number, bytes(4))))

    burst(1, ALLOWANCE // 2 - 10)
    end.allowance.rested(1.0)
    burst(1 + ALLOWANCE, 20)
    with pytest.raises(ConnectionFailed):
        burst(1 + 2 * ALLOWANCE, ALLOWANCE // 2)


def test_after_a_warning_a_call_that_is_on_its_way_is_taken():
    end, _ = opened()
    end.warn()
    assert frames_in(b"".join(end.take(0))) == [(GOAWAY, 0, 0, WORD.pack(2**31 - 1) + bytes(4))]
    [begun] = end.receive(memoryview(frame(HEADERS, END_HEADERS, 1, BLOCK)))
    assert begun.stream.id == 1


def test_who_leaves_takes_no_further_calls():
    end, [begun] = opened(frame(HEADERS, END_HEADERS, 1, BLOCK))
    end.leave()
    assert end.receive(memoryview(frame(HEADERS, END_HEADERS, 3, BLOCK))) == []
    assert [kind for kind, _, _, _ in frames_in(b"".join(end.take(0)))] == [GOAWAY, RST_STREAM]
    assert end.streams == {1: begun.stream}
