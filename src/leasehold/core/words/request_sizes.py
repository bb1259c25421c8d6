"""How much memory a decoded request takes."""

from operator import attrgetter
from sys import getsizeof
from typing import Final

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


def _filter_bytes(one: Filter) -> int:
    """Beside the struct itself."""
    texts = sum(map(getsizeof, map(_text, one.values)))
    return getsizeof(one.column) + getsizeof(one.values) + _LITERAL_BYTES * len(one.values) + texts
