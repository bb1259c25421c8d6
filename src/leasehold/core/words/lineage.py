"""The lineage: a hash chain over every change of the watched range (docs/design.md, "Terms", history hash).

Each leader transaction writes `next_lineage(previous, its changes)` under the key `LINEAGE`, so a watcher
that lost, doubled or mixed up an event notices at the next one.
"""

import hashlib
from collections.abc import Iterable
from struct import Struct

from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.ids import LineageHash

_length = Struct(">I")
GENESIS = LineageHash(bytes(32))


def next_lineage(previous: LineageHash, changes: Iterable[Change]) -> LineageHash:
    """Hash of `previous` and the changes of one revision in key order, the lineage key itself left out."""
    digest = hashlib.sha256(previous)
    for change in sorted(changes, key=lambda one: one.key):
        if change.key == keys.LINEAGE:
            continue
        value = change.value
        digest.update(b"-" if value is None else b"+")
        digest.update(_length.pack(len(change.key)))
        digest.update(change.key)
        if value is not None:
            digest.update(_length.pack(len(value)))
            digest.update(value)
    return LineageHash(digest.digest())
