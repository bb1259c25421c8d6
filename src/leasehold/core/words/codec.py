"""Records and messages as bytes: MessagePack, one schema, bounded, never a pickle."""

from functools import cache
from typing import TypeVar

import msgspec

from leasehold.core.words.messages import CommitTransaction, Message, ReadTogether, Request, Ticket
from leasehold.core.words.records import AnyRecord, Record
from leasehold.error_codes import ErrorCode
from leasehold.errors import Corrupt, Refused
from leasehold.limits.messages import ASKED_VALUES_MAX, MESSAGE_BYTES_MAX

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for bytes that are not ours: nesting too deep is one of them."""

R = TypeVar("R", bound=Record)
M = TypeVar("M", bound=Message)

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_record = msgspec.msgpack.Decoder(AnyRecord)
_message = msgspec.msgpack.Decoder(Message)
_request = msgspec.msgpack.Decoder(Request)
_ticket = msgspec.msgpack.Decoder(Ticket)
_commit = msgspec.msgpack.Decoder(CommitTransaction)


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
    return _decoded(_message, blob)


def decode_request(blob: bytes | bytearray, *, commit: bool = False) -> Request:
    """As `decode_message`, of nothing but what a coordinator is asked. An answer may hold lists of any length, which
    take far more memory than their bytes."""
    return _with_few_values(_decoded(_commit if commit else _request, blob))


def decode_ticket(blob: bytes | bytearray) -> Ticket:
    """As `decode_request`, of what a node is asked."""
    return _with_few_values(_decoded(_ticket, blob))


def _with_few_values(message: M) -> M:
    """The message, if all its conditions together have no more values than any request may have."""
    count = _count_values(message)
    if count <= ASKED_VALUES_MAX:
        return message
    del message  # the error would hold it
    raise Refused(
        f"the conditions have {count} values, over {ASKED_VALUES_MAX}",
        code=ErrorCode.BAD_MESSAGE,
        hint="ask with fewer values",
    )


def _count_values(message: Message) -> int:
    asked = message.first if isinstance(message, ReadTogether) else message
    conditions = (*(getattr(asked, "where", None) or ()), *(getattr(asked, "covers", None) or ()))
    return sum(len(one.values) for one in conditions)


def decode_as(kind: type[M], blob: bytes | bytearray) -> M:
    """The message of this kind in `blob`; raises as `decode_message`."""
    return _decoded(_decoder_of(kind), blob)


@cache
def _decoder_of(kind: type[M]) -> msgspec.msgpack.Decoder[M]:
    return msgspec.msgpack.Decoder(kind)


def _decoded(decoder: msgspec.msgpack.Decoder[M], blob: bytes | bytearray) -> M:
    if len(blob) > MESSAGE_BYTES_MAX:
        raise Refused(
            f"a message of {len(blob)} bytes, over {MESSAGE_BYTES_MAX}", code=ErrorCode.BAD_MESSAGE, hint="send less"
        )
    try:
        return decoder.decode(blob)
    except UNREADABLE as error:
        raise Refused(
            f"the message can't be read: {error}", code=ErrorCode.BAD_MESSAGE, hint="upgrade the older of the two"
        ) from error
