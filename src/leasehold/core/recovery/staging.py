"""What a vault counts of a snapshot while it takes it page by page, and when it may leap to it (docs/recovery.md)."""

from collections.abc import Sequence

import msgspec

from leasehold.core.catalog.shelf import on_demand
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.operations import Change
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import LineageHash, Revision
from leasehold.limits.vault import VAULT_STAGED_KEYS_MAX


class Staged(msgspec.Struct, frozen=True):
    """The pages so far."""

    keys: int = 0
    digest: int = 0
    eager: int = 0
    """Of those that are not read on demand (`core.catalog.shelf`)."""
    last: bytes | None = None

    def adding(self, items: Sequence[Change]) -> "tuple[Staged, list[int]]":
        """With one page more, and the digest of each of its items. Raises `Refused` with code BAD_SNAPSHOT if the page
        does not go on where the last one ended."""
        if self.keys + len(items) > VAULT_STAGED_KEYS_MAX:
            raise bad_snapshot(f"it has more than {VAULT_STAGED_KEYS_MAX} keys")
        digest, eager, last = self.digest, self.eager, self.last
        counted: list[int] = []
        for item in items:
            if item.value is None:
                raise bad_snapshot(f"a delete of {item.key!r} in it")
            if last is not None and item.key <= last:
                raise bad_snapshot(f"{item.key!r} comes after {last!r}")
            last = item.key
            counts = item_digest(item.key, item.value)
            digest ^= counts
            if not on_demand(item.key):
                eager ^= counts
            counted.append(counts)
        return Staged(self.keys + len(items), digest, eager, last), counted

    def check_leap(
        self, applied: tuple[Revision, LineageHash], target: tuple[Revision, LineageHash], digest: bytes
    ) -> None:
        """Raises `Refused`: BAD_SNAPSHOT if these are not the items that the sender counted, NOT_ASCENDING if `target`
        is no later state of what is applied.

        The same revision with the same hash is no error: an answer was lost, or a replay came as far. Then `check_same`
        applies.
        """
        if digest_bytes(self.digest) != digest:
            raise bad_snapshot(f"the {self.keys} received items differ from the sent items")
        if target[0] < applied[0]:
            raise Refused(f"a leap to revision {target[0]} from {applied[0]}", code=ErrorCode.NOT_ASCENDING)
        if target[0] == applied[0] and target[1] != applied[1]:
            raise Refused(f"a leap to another history of revision {target[0]}", code=ErrorCode.NOT_ASCENDING)


def check_same(changes: Sequence[Change]) -> None:
    """Raises BAD_SNAPSHOT if a snapshot at the applied revision and hash changes anything."""
    if changes:
        raise bad_snapshot(f"it is at the applied revision, but differs at {changes[0].key!r}")


def bad_snapshot(why: str) -> Refused:
    return Refused(f"bad snapshot: {why}", code=ErrorCode.BAD_SNAPSHOT, hint="the node asks for a new one")
