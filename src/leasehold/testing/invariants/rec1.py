"""INV-REC-1: projection, LV and hash agree after any crash; no disk effect is ahead of LV.

A vault's hash is that of the store's history at its applied revision, after every step; whenever it is opened, after
every leap and after every crash, its projection is the fold of that history, key by key, for what the process sees and
for what the machine would keep. A file leaves a disk only on what the vault of that host holds durably.
"""

from collections.abc import Mapping
from typing import Final

from leasehold.core.words import keys
from leasehold.testing.history import Committed
from leasehold.testing.news import DiskImage, Removed, VaultChanged
from leasehold.testing.oracle import Oracle
from leasehold.testing.vault import VaultStep

HEARS: Final = frozenset({Committed, Removed, VaultChanged})


class ComparedProjections:
    """The last correct projection of each host, which most steps leave unchanged."""

    def __init__(self) -> None:
        self.items: dict[str, Mapping[bytes, bytes]] = {}


def check(oracle: Oracle) -> str | None:
    for news in oracle.of(Committed):
        if not news.follows:
            return f"the lineage of revision {news.revision} does not follow from the one before it"
    for changed in oracle.of(VaultChanged):
        whole = changed.step is not VaultStep.WRITTEN
        wrong = _image(oracle, changed.host, changed.image, whole=whole)
        if wrong is None and changed.durable.applied != changed.image.applied:
            wrong = _image(oracle, changed.host, changed.durable, whole=whole)
        if wrong is not None:
            return f"the vault of {changed.host} ({changed.step.name.lower()}) {wrong}"
    for one in oracle.of(Removed):
        at = oracle.history.at_most(one.durable)
        if not one.damaged and not oracle.history.may_go(at, one.table, one.bucket, one.segment, one.node):
            return f"segment {one.segment} left {one.host} ahead of its vault, which holds revision {one.durable}"
    return None


def _image(oracle: Oracle, host: str, image: DiskImage, *, whole: bool) -> str | None:
    expected = oracle.history.lineage_at(image.applied)
    if expected is None:
        return f"has applied revision {image.applied}, which has never been"
    if image.lineage != expected:
        return f"has another history than the store at revision {image.applied}"
    compared = oracle.recall(ComparedProjections)
    if not whole or compared.items.get(host) is image.items:
        return None
    fold = dict(oracle.history.fold_at(image.applied).items())
    held = dict(image.items)
    fold.pop(keys.LINEAGE, None)
    held.pop(keys.LINEAGE, None)
    if held != fold:
        wrong = sorted(key for key in {*held, *fold} if held.get(key) != fold.get(key))
        return f"differs from the store at revision {image.applied} in {wrong[:3]}"
    compared.items[host] = image.items
    return None
