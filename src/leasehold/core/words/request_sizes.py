"""How much memory decoded requests and parsed statements take."""

from enum import Enum
from operator import attrgetter
from sys import getsizeof
from typing import Final

import msgspec

from leasehold.core.words.messages import Filter, Message
from leasehold.core.words.statements import Literal

_LITERAL_BYTES: Final = getsizeof(Literal("null", ""))
_text = attrgetter("text")


def decoded_bytes(request: Message) -> int:
    """About as many bytes as the texts and lists of the request take. A text takes 50 bytes more than its characters,
    and up to four bytes for each."""
    size = getsizeof(request)
    for name in request.__struct_fields__:
        value = getattr(request, name)
        size += getsizeof(value)
        if isinstance(value, tuple):
            size += sum(map(getsizeof, value))
            size += sum(_filter_bytes(one) for one in value if isinstance(one, Filter))
    return size


def held_bytes(value: object) -> int:
    """As many bytes as texts and parsed statements take that are reached from `value`, each counted once."""
    size, seen, left = 0, set[int](), [value]
    while left:
        one = left.pop()
        if one is None or isinstance(one, bool | Enum) or id(one) in seen:
            continue
        seen.add(id(one))
        size += getsizeof(one)
        if isinstance(one, msgspec.Struct):
            left += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, tuple):
            left += one
        elif isinstance(one, dict):
            left += [*one, *one.values()]
    return size


def _filter_bytes(one: Filter) -> int:
    """Beside the struct itself."""
    texts = sum(map(getsizeof, map(_text, one.values)))
    return getsizeof(one.column) + getsizeof(one.values) + _LITERAL_BYTES * len(one.values) + texts
