"""The port by which steps of local opens make and remove links."""

from collections.abc import Sequence
from typing import Protocol

from leasehold.core.replicas.reconcile import OnDisk


class LinksFiles(Protocol):
    """Links to the segment files of this node, in one folder for each open."""

    def prove(self) -> str:
        """Where a file is that a reader reads to prove that it sees this file system; writes it, if it is not there."""
        ...

    def is_proof(self, content: bytes) -> bool:
        """Whether that file holds `content`."""
        ...

    async def link(self, request: str, groups: Sequence[Sequence[OnDisk]]) -> str:
        """Makes the folder of an open, with the links; its path. Raises `Refused` with code NO_LINKS if that can't be
        done here. Then, or if the folder is taken away meanwhile, some links may be left until `take_away`."""
        ...

    def take_away(self, request: str) -> None:
        """Takes the folder of an open from its path at once, if it is there. Raises `Definite` (DISK_ERROR)."""
        ...

    async def delete(self) -> None:
        """Deletes what was taken away."""
        ...
