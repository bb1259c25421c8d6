"""The port of a store that `leasehold up` runs on this machine for several coordinators: etcd, or ZooKeeper."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from leasehold.metastorage.access import StoreAccess


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

    def command(self, directory: Path, members: Mapping[str, LocalMember], token: str, *, is_new: bool) -> list[str]:
        """Starts the member whose directory it is, among all members by their names. Only in a new cluster may it begin
        without data, and be counted at once."""
        ...

    def is_member(self, command: Sequence[str], directory: Path) -> bool:
        """Whether a process with this command is the member whose directory it is."""
        ...

    def has_data(self, directory: Path) -> bool:
        """Whether the member whose directory it is has stored anything."""
        ...

    def is_damage(self, words: str) -> bool:
        """Whether a member that has ended says with these words that it can't use its data."""
        ...

    def is_together(self, access: StoreAccess) -> bool:
        """Whether all these members answer, and one of them leads. Raises definite errors."""
        ...

    def replace(self, member: LocalMember, others: StoreAccess) -> None:
        """Prepares the other members for one that lost its data, and starts again with none. Raises `Indefinite` if
        this has to be called again."""
        ...

    def protect(self, addresses: Sequence[str], password: str, wait: Callable[[str], None]) -> None:
        """Returns once the members let in only who knows the password. `wait` is called between tries, with what is
        waited for; an error that it raises ends this."""
        ...
