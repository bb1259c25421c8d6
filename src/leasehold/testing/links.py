"""The links to segment files at a simulated node, which outlive its processes (`storage/local_links.py`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from leasehold.core.data.segment_files import Stamp
from leasehold.core.replicas.reconcile import OnDisk
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.testing.disk import MemoryDisk
from leasehold.wire.ports import Clock

if TYPE_CHECKING:
    from leasehold.testing.dataplane import DataNode

PROOF: Final = b"seen"


class MemoryLinks:
    """Implements `core.local.links.LinksFiles` for one process."""

    def __init__(self, node: "DataNode", disk: MemoryDisk, clock: Clock) -> None:
        self._node = node
        self._disk = disk
        self._clock = clock

    def prove(self) -> str:
        return "proof"

    def is_proof(self, content: bytes) -> bool:
        return content == PROOF

    async def link(self, request: str, groups: Sequence[Sequence[OnDisk]]) -> str:
        for one in (one for group in groups for one in group):
            await self._clock.sleep_until(self._clock.now_ns() + self._node.batch_delay_ns())
            self._disk.check()
            stamp: Stamp | None = self._disk.disk.stamp(one)
            if stamp is None:
                raise Refused(f"no file of {one}", code=ErrorCode.NOT_LOCAL)
        self._disk.check()
        self._node.links[request] = None
        return request

    def take_away(self, request: str) -> None:
        self._node.links.pop(request, None)

    async def delete(self) -> None:
        """Nothing is left of what was taken away."""
