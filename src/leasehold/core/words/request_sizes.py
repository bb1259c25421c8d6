"""How much memory decoded requests and parsed statements take."""

from enum import Enum
from operator import attrgetter
from sys import getsizeof
from typing import Final

import msgspec

from leasehold.core.words.messages import FieldFilter, Filter, Message, Replaced, SegmentHolder, StagedSegment
from leasehold.core.words.records import ColumnStatistics
from leasehold.core.words.statements import Literal
from leasehold.ids import FieldId, Incarnation, NodeId

_LITERAL_BYTES: Final = getsizeof(Literal("null", ""))
_HOLDER_BYTES: Final = getsizeof(SegmentHolder(node=NodeId(1), incarnation=Incarnation(1)))
_STATISTICS_BYTES: Final = getsizeof(ColumnStatistics(field=FieldId(1), nulls=0, minimum=0, maximum=0))
_WORD_BYTES: Final = getsizeof("")
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
            size += sum(map(_more_bytes, value))
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


def _more_bytes(one: object) -> int:
    """What a member of a list takes beside its struct."""
    match one:
        case str():
            return 0
        case Filter(column=column, values=values):
            texts = _words_bytes(tuple(map(_text, values)))
            return getsizeof(column) + getsizeof(values) + _LITERAL_BYTES * len(values) + texts
        case FieldFilter(values=values):
            return getsizeof(values) + _words_bytes(values)
        case Replaced(segment=segment):
            return getsizeof(segment)
        case StagedSegment(statistics=statistics, holders=holders):
            bounds = sum(getsizeof(it.minimum) + getsizeof(it.maximum) for it in statistics)
            seals = sum(getsizeof(it.seal) for it in holders)
            structs = len(statistics) * _STATISTICS_BYTES + len(holders) * _HOLDER_BYTES
            return getsizeof(one.id) + getsizeof(one.sha256) + bounds + seals + structs
        case _:
            return 0


def _words_bytes(words: tuple[str, ...]) -> int:
    """Much quicker than the size of each."""
    return getsizeof("".join(words)) + _WORD_BYTES * (len(words) - 1)
