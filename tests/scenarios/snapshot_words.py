"""A snapshot as a test reads it: all of it, its items, its digest."""

from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.messages import SnapshotPage


async def told(stream):
    """All messages of a snapshot."""
    return [message async for message in stream]


def items(whole):
    return [item for page in whole if isinstance(page, SnapshotPage) for item in page.items]


def digest(changes):
    value = 0
    for one in changes:
        value ^= item_digest(one.key, one.value)
    return digest_bytes(value)
