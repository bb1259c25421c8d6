"""A call of the transport (`wire.rpc`) as bytes that are ready to be sent, for a process that has no gRPC.

They are what a client of HTTP/2 (RFC 9113) sends on a new connection: the preface, empty settings, and one POST on
stream 1 with the request in the frame of gRPC. Its headers are literals, which need no table (RFC 7541, 6.2.2). The
answer's message arrives uncompressed in frames of DATA, so a short answer can be looked for as it is.
"""

from typing import Final

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Message
from leasehold.wire.rpc import call_path

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_FRAME_BYTES_MAX: Final = 16_384
"""No peer refuses a frame of this size."""
_LITERAL_BYTES_MAX: Final = 126
"""Longer ones have their length in several bytes."""


def prepared_call(request: Message) -> bytes:
    """What to send on a new connection."""
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": call_path(request),
        ":authority": "leasehold",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    block = b"".join(b"\0" + _literal(name) + _literal(value) for name, value in headers.items())
    opened = _PREFACE + _frame(_SETTINGS, 0, 0, b"") + _frame(_HEADERS, _END_HEADERS, 1, block)
    return opened + _frame(_DATA, _END_STREAM, 1, prepared_answer(request))


def prepared_answer(answer: Message) -> bytes:
    """What is found in the bytes that arrive if this is the answer."""
    blob = encode(answer)
    return b"\0" + len(blob).to_bytes(4, "big") + blob


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    assert len(payload) <= _FRAME_BYTES_MAX
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _literal(text: str) -> bytes:
    assert len(text) <= _LITERAL_BYTES_MAX
    return bytes([len(text)]) + text.encode()
