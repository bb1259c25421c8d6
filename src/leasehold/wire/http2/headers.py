"""Header blocks (RFC 7541). Ours are literals: they need no state. Those of a peer are read by the library `hpack`,
within bounds from the first one on."""

from collections.abc import Iterable
from typing import Final, TypeAlias

import hpack

from leasehold.limits.http2 import HEADER_BLOCKS_KEPT, HEADER_LIST_BYTES_MAX
from leasehold.limits.requests import CALL_HEADERS_MAX
from leasehold.wire.http2.frames import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, ConnectionFailed

Headers: TypeAlias = list[tuple[bytes, bytes]]
_STATUS_OK: Final = (b":status", b"200")
_STATUS_OK_BLOCK: Final = 0x88
"""Its index in the static table."""
_LITERAL: Final = 0x00
_INDEXED: Final = 0x80
_RESIZE: Final = 0x20
_RESIZES_MAX: Final = 2
"""At the beginning of a block (RFC 7541, 4.2). Each takes the library a microsecond, and a byte."""
_PREFIX_7: Final = 0x7F
_PREFIX_5: Final = 0x1F


def header_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    block = bytearray()
    for header in headers:
        if header == _STATUS_OK:
            block.append(_STATUS_OK_BLOCK)
            continue
        block.append(_LITERAL)
        for text in header:
            block += _length(len(text))
            block += text
    return bytes(block)


def _length(length: int) -> bytes:
    if length < _PREFIX_7:
        return bytes((length,))
    digits = bytearray((_PREFIX_7,))
    length -= _PREFIX_7
    while length >= _INDEXED:
        digits.append(length & _PREFIX_7 | _INDEXED)
        length >>= 7
    digits.append(length)
    return bytes(digits)


class HeaderDecoder:
    """Of one connection."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder(HEADER_LIST_BYTES_MAX)
        self._known: dict[bytes, Headers] = {}
        """Blocks that have indices of one byte alone mean the same until the table changes."""

    def decode(self, block: bytes) -> Headers:
        """Raises `ConnectionFailed`: after that nobody knows what later blocks mean."""
        known = self._known.get(block)
        if known is not None:
            return known
        if _resizes(block) > _RESIZES_MAX:
            raise ConnectionFailed(COMPRESSION_ERROR, "a header block that only resizes a table")
        try:
            headers: Headers = list(self._decoder.decode(block, raw=True))
        except hpack.OversizedHeaderListError as error:
            raise ConnectionFailed(ENHANCE_YOUR_CALM, "a header list over our bound") from error
        except hpack.HPACKError as error:
            raise ConnectionFailed(COMPRESSION_ERROR, "a header block that can't be read") from error
        if len(headers) > CALL_HEADERS_MAX:
            raise ConnectionFailed(ENHANCE_YOUR_CALM, "a call with too many headers")
        if not block or min(block) < _INDEXED or max(block) == 0xFF:
            self._known.clear()
        elif len(self._known) < HEADER_BLOCKS_KEPT:
            self._known[block] = headers
        return headers


def _resizes(block: bytes) -> int:
    """How many updates of the table's size a block begins with, counted as far as they may go."""
    found = at = 0
    while found <= _RESIZES_MAX and at < len(block) and block[at] & 0xE0 == _RESIZE:
        found += 1
        if block[at] & _PREFIX_5 == _PREFIX_5:
            at += 1
            while at < len(block) and block[at] & _INDEXED:
                at += 1
        at += 1
    return found
