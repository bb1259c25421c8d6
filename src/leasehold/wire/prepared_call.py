"""A call of the transport (`wire.rpc`) as bytes that are ready to be sent, for a process that has no gRPC.

They are what a client of HTTP/2 (RFC 9113) sends on a new connection: the preface, empty settings, and one POST on
stream 1 with the request in the frame of gRPC. Its headers are literals, which need no table (RFC 7541, 6.2.2). The
answer's message arrives uncompressed in frames of DATA, so a short answer can be looked for as it is.
"""

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Message
from leasehold.wire.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MIN,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
)
from leasehold.wire.http2.grpc_messages import KIND, prefixed
from leasehold.wire.http2.headers import header_block
from leasehold.wire.rpc import call_path


def prepared_call(request: Message) -> bytes:
    """What to send on a new connection."""
    headers = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", call_path(request).encode()),
        (b":authority", b"leasehold"),
        (b"te", b"trailers"),
        (b"content-type", KIND),
    )
    message = prepared_answer(request)
    assert len(message) <= FRAME_BYTES_MIN, "no peer refuses a frame of this size"
    opened = PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, header_block(headers))
    return opened + frame(DATA, END_STREAM, 1, message)


def prepared_answer(answer: Message) -> bytes:
    """What is found in the bytes that arrive if this is the answer."""
    return b"".join(prefixed(encode(answer)))
