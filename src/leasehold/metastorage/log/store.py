"""The port of the engine that keeps a log: etcd, or ZooKeeper. `tests/conformance` holds every implementation to it.

Keys are `directory/name`, both of letters, digits and `-`, and lie below one prefix for each cluster. A value has at
most `STORE_VALUE_BYTES_MAX` bytes, a swap at most `STORE_SWAP_KEYS_MAX` keys and `STORE_SWAP_BYTES_MAX` bytes: so all
of it works with the default settings of every engine.

**A key whose version a swap compares is never deleted.** ZooKeeper counts the versions of a key from its creation on.
So a key that was deleted and created again could have a version that it had before.

A method raises `Indefinite` when it is not known whether the request happened: it may even happen later. It raises a
definite error for what surely never happens: `StoreFull`, `StoreDenied`, `StoreUnsuitable`. After `stand_by` the last
two become `Unreachable`, with their text, code and hint: somebody corrects that while this process waits.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused


class StoreFull(Refused):
    """The engine takes no writes before somebody makes room for it."""

    default_code = ErrorCode.STORE_FULL


class StoreDenied(Refused):
    """The engine does not accept this user, or does not grant it this prefix."""

    default_code = ErrorCode.STORE_DENIED


class StoreUnsuitable(Refused):
    """The engine is not one that can keep a log: a release with a known fault, or something else altogether."""

    default_code = ErrorCode.STORE_UNSUITABLE


class OtherStore(StoreUnsuitable):
    """A member of another cluster than the one that was met first."""


class StoredValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A value, and the version that its last write gave it. No two writes of a key that is never deleted give it the
    same version."""

    value: bytes
    version: int


MISSING = 0
"""Stands for the version of a key that is not there."""


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """If each key in `unchanged` has its version (`MISSING`: is not there), all of `puts` and `deletes` happen at once,
    otherwise nothing. No key is named twice in `puts` and `deletes` together."""

    unchanged: Mapping[str, int]
    puts: Mapping[str, bytes] = {}
    deletes: tuple[str, ...] = ()


class StoreSize(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine holds, of all its users, and what it may hold."""

    used_bytes: int
    quota_bytes: int | None
    """None where the engine does not tell."""
    is_full: bool
    """It declines writes until a person clears that."""


class StoreMember(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the engine, as it tells about itself."""

    name: str
    address: str
    version: str
    leads: bool
    warning: str = ""
    """A sentence for people about a member that should be upgraded, or that is passed over."""


class LogStore(Protocol):
    """One client of the engine. All operations are linearizable: a read sees each write that was answered before it
    began, by whichever member."""

    @property
    def member(self) -> str:
        """The address of the member that is asked first."""
        ...

    async def get(self, key: str) -> StoredValue | None:
        """The value at `key`, None if it is not there."""
        ...

    async def page(self, directory: str, start: str = "", *, limit: int) -> list[tuple[str, StoredValue]]:
        """The first keys of a directory whose names are at or after `start`, in the order of their names: at most
        `limit`, fewer where they would not fit in one answer, but one at least if there is one. Names come without the
        directory. A page is no snapshot: each value is one that its key had since the call began."""
        ...

    async def swap(self, swap: Swap) -> Mapping[str, int] | None:
        """The new version of each key in `puts`; None if a compare did not hold and nothing happened."""
        ...

    async def delete_below(self, directory: str, end: str) -> None:
        """Deletes the keys of a directory whose names lie below `end`, in any number of steps."""
        ...

    def watch(self, key: str) -> AsyncGenerator[None, None]:
        """Yields when `key` may have changed: once at the beginning, then after each change, possibly late, possibly
        without one, one for several. It never ends by itself and hides every fault: who follows a key reads it now and
        then, whatever the watch says."""
        ...

    async def size(self) -> StoreSize:
        """How full the engine is."""
        ...

    async def members(self) -> list[StoreMember]:
        """The members that answer, of those that are known."""
        ...

    def stand_by(self) -> None:
        """From now on the engine is asked again if it does not accept this client any more."""
        ...

    async def free_history(self) -> None:
        """Lets the engine give up old versions of keys, where it keeps such."""
        ...

    async def close(self) -> None:
        """Ends watches and connections; what waits gets `Indefinite`. Idempotent."""
        ...
