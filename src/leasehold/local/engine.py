"""The port of a store that `leasehold up` runs on this machine for several coordinators: etcd, or ZooKeeper."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec


class LocalMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ports of a member."""

    client: int
    """For coordinators."""
    peer: int
    """For the other members."""
    election: int = 0
    """Where members of ZooKeeper elect their leader; etcd uses `peer` for that too."""


class LocalEngine(Protocol):
    """A kind of store whose members run on this machine."""

    @property
    def scheme(self) -> str:
        """The first word of a location of it."""
        ...

    @property
    def user(self) -> str:
        """As whom the coordinators log in."""
        ...

    @property
    def quota(self) -> str | None:
        """What a member can hold, as `meta_quota` says it; None where it tells by itself."""
        ...

    def check(self) -> None:
        """Raises `BadSettings` (NO_STORE) where it can't run."""
        ...

    def command(self, directory: Path, members: Mapping[str, LocalMember], token: str) -> list[str]:
        """Starts the member whose directory it is, among all members by their names."""
        ...

    def protect(self, addresses: Sequence[str], password: str, wait: Callable[[str], None]) -> None:
        """Returns once the members let in only who knows the password. `wait` is called between tries, with what is
        waited for; an error that it raises ends this."""
        ...
