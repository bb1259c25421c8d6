"""The wire format of protobuf, version 3, for frozen structs: the annotation of a field carries its number.

| annotation | field |
| --- | --- |
| `bytes`, `str`, `bool` | of the same type |
| `int` | an int64, an enum, or an uint64 as the int64 with the same bits |
| a struct | a message |
| any of these with `None` | the same, in a `oneof`: the default value is written too |
| a `tuple` of any of these but numbers | a repeated field |

The bytes of a peer are read strictly: a length beyond the message, a varint of more than 64 bits, a wire type that
does not belong to the field, text that is not UTF-8 and too many elements are `BadMessage`. Unknown fields are skipped.
Reading takes time and memory in proportion to the bytes.
"""

import types
import typing
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from leasehold.errors import BadMessage
from leasehold.limits.etcd import ETCD_REPEATED_MAX

M = TypeVar("M", bound=msgspec.Struct)

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH: Final = 2
_FIXED32: Final = 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_NUMBER_MAX: Final = (1 << 29) - 1


class ProtobufField(msgspec.Struct, frozen=True):
    """One field of a message."""

    number: int
    name: str
    kind: type
    """Of one element, if it is repeated."""
    in_oneof: bool
    is_repeated: bool

    @property
    def wire_type(self) -> int:
        return _VARINT if issubclass(self.kind, int) else _LENGTH


@cache
def fields(kind: type[msgspec.Struct]) -> dict[int, ProtobufField]:
    """The fields of a message by number, in the order of their numbers."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = [_field(one.name, hints[one.name]) for one in msgspec.structs.fields(kind)]
    return {one.number: one for one in sorted(found, key=lambda one: one.number)}


def _field(name: str, hint: Any) -> ProtobufField:
    of, number = typing.get_args(hint)
    in_oneof = isinstance(of, types.UnionType)
    is_repeated = typing.get_origin(of) is tuple
    kind = typing.get_args(of)[0] if in_oneof or is_repeated else of
    return ProtobufField(number, name, kind, in_oneof, is_repeated)


def encode(message: msgspec.Struct) -> bytes:
    """The bytes of a message, its fields in the order of their numbers."""
    blob = bytearray()
    for field in fields(type(message)).values():
        value = getattr(message, field.name)
        if field.is_repeated:
            for one in value:
                _write(blob, field, one)
        elif value is not None and (field.in_oneof or value):
            _write(blob, field, value)
    return bytes(blob)


def _write(blob: bytearray, field: ProtobufField, value: Any) -> None:
    _write_varint(blob, field.number << 3 | field.wire_type)
    if field.wire_type == _VARINT:
        _write_varint(blob, value & 0xFFFF_FFFF_FFFF_FFFF)
        return
    if isinstance(value, msgspec.Struct):
        value = encode(value)
    elif isinstance(value, str):
        value = value.encode()
    _write_varint(blob, len(value))
    blob += value


def _write_varint(blob: bytearray, value: int) -> None:
    while value > 0x7F:
        blob.append(value & 0x7F | 0x80)
        value >>= 7
    blob.append(value)


def decode(kind: type[M], blob: bytes) -> M:
    """The message in `blob`; raises `BadMessage`."""
    return _decode(kind, blob, 0, len(blob))


def _decode(kind: type[M], blob: bytes, at: int, end: int) -> M:
    known = fields(kind)
    values: dict[str, Any] = {}
    while at < end:
        tag, at = _read_varint(blob, at, end)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number <= _NUMBER_MAX:
            raise _bad(f"a field with the number {number}")
        content = at  # of a field with a length: where it begins
        if wire_type == _VARINT:
            content, at = _read_varint(blob, at, end)
        elif wire_type == _LENGTH:
            size, content = _read_varint(blob, at, end)
            at = content + size
        elif wire_type in _FIXED_BYTES:
            at += _FIXED_BYTES[wire_type]
        else:
            raise _bad(f"a field of the wire type {wire_type}")
        if at > end:
            raise _bad("a field is longer than its message")
        if (field := known.get(number)) is None:
            continue
        if wire_type != field.wire_type:
            raise _bad(f"field {number} of {kind.__name__} has the wire type {wire_type}")
        value = _value(field.kind, blob, content, at)
        if not field.is_repeated:
            values[field.name] = value
        elif len(elements := values.setdefault(field.name, [])) < ETCD_REPEATED_MAX:
            elements.append(value)
        else:
            raise _bad(f"field {number} of {kind.__name__} has more than {ETCD_REPEATED_MAX} elements")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _value(kind: type, blob: bytes, content: int, end: int) -> Any:
    """What a field holds; `content` is the number itself, or where the bytes begin."""
    if kind is bool:
        return content != 0
    if kind is int:
        return content - (1 << 64) if content >> 63 else content
    if kind is bytes:
        return blob[content:end]
    if kind is str:
        try:
            return blob[content:end].decode()
        except UnicodeDecodeError as error:
            raise _bad("a text is not UTF-8") from error
    return _decode(kind, blob, content, end)


def _read_varint(blob: bytes, at: int, end: int) -> tuple[int, int]:
    """The number, and where the next byte is."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= end:
            raise _bad("a number is cut off")
        byte = blob[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, at
    raise _bad("a number has more than 64 bits")


def _bad(what: str) -> BadMessage:
    return BadMessage(f"an answer can't be read: {what}", hint="check that etcd listens at this address")
