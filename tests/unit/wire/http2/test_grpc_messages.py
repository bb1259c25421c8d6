"""Messages of gRPC in pieces, and the statuses that end its calls."""

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.wire.http2.grpc_messages import BadCallMessage, MessageAssembler, prefixed, status_block
from leasehold.wire.http2.headers import HeaderDecoder

MOST = 20_000


@given(st.lists(st.integers(0, 6_000).map(bytes), max_size=5), st.lists(st.integers(0, 30_000), max_size=8))
def test_messages_come_whole_in_any_pieces(messages, cuts):
    sent = b"".join(b"".join(prefixed(one)) for one in messages)
    assembler, found = MessageAssembler(MOST), []
    at = sorted(one for one in cuts if one < len(sent))
    for begin, end in zip([0, *at], [*at, len(sent)], strict=True):
        found += assembler.feed(memoryview(sent)[begin:end])
    assert found == messages
    assert assembler.is_between
    assert assembler.missing == 0


def test_it_says_how_much_is_missing():
    assembler = MessageAssembler(MOST)
    sent = b"".join(prefixed(bytes(10)))
    assert list(assembler.feed(memoryview(sent[:3]))) == []
    assert not assembler.is_between
    assert list(assembler.feed(memoryview(sent[3:9]))) == []
    assert assembler.missing == 6
    assert not assembler.is_between


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\0" + (MOST + 1).to_bytes(4, "big"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (b"\x01" + bytes(4), grpc.StatusCode.UNIMPLEMENTED),
    ],
    ids=["too large", "compressed"],
)
def test_what_is_no_message_is_refused_before_it_comes(sent, status):
    with pytest.raises(BadCallMessage) as caught:
        list(MessageAssembler(MOST).feed(memoryview(sent)))
    assert caught.value.status is status


def test_a_status_is_in_headers():
    said = HeaderDecoder().decode(status_block(grpc.StatusCode.UNIMPLEMENTED, "not ä: 100 %", has_headers=True))
    assert said == [(b"grpc-status", b"12"), (b"grpc-message", b"not %C3%A4%3A 100 %25")]
    alone = HeaderDecoder().decode(status_block(grpc.StatusCode.OK, "", has_headers=False))
    assert alone == [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", b"0")]
