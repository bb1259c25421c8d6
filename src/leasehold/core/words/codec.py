"""Records and messages as bytes: MessagePack, one schema, bounded, never a pickle."""

from typing import TypeVar

import msgspec

from leasehold.core.words.messages import Message
from leasehold.core.words.records import AnyRecord, Record
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for bytes that are not ours: nesting too deep is one of them."""

R = TypeVar("R", bound=Record)

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_record = msgspec.msgpack.Decoder(AnyRecord)
_message = msgspec.msgpack.Decoder(Message)


def encode(thing: AnyRecord | Message) -> bytes:
    """The one encoding of a record or message: the same value gives the same bytes."""
    return _encoder.encode(thing)


def decode_record(kind: type[R], blob: bytes) -> R:
    """The record in `blob`; raises `Corrupt` if it is not one, or not of this kind."""
    try:
        record = _record.decode(blob)
    except UNREADABLE as error:
        raise Corrupt(f"a stored {kind.__name__} can't be read: {error}") from error
    if not isinstance(record, kind):
        raise Corrupt(f"a stored {type(record).__name__} was found instead of a {kind.__name__}")
    return record


def decode_message(blob: bytes | bytearray) -> Message:
    """The message in `blob`; raises `Refused` with code BAD_MESSAGE if it is not one of ours."""
    if len(blob) > MESSAGE_BYTES_MAX:
        raise Refused(f"a message of {len(blob)} bytes, over {MESSAGE_BYTES_MAX}", code=ErrorCode.BAD_MESSAGE)
    try:
        return _message.decode(blob)
    except UNREADABLE as error:
        raise Refused(f"the message can't be read: {error}", code=ErrorCode.BAD_MESSAGE) from error
