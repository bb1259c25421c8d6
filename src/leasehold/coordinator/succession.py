"""The end of a leadership that an operator wants: `leasehold leader transfer`."""

import asyncio
from typing import Final

from leasehold.core.words.messages import LeadershipEnds, TransferLeadership
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadMessage, Refused
from leasehold.ids import NODE_ADDRESS
from leasehold.metastorage.contract import Leadership


class WantedSuccessor:
    """Of one leader."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self.successor: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        """Done once an operator wants another coordinator to lead: its name, empty for any."""

    def ask(self, request: TransferLeadership) -> LeadershipEnds:
        """Raises `Refused` (NO_SUCCESSOR, BAD_MESSAGE)."""
        if self._leadership.deadline_ns() is None:
            raise Refused(
                "this cluster has one coordinator: its meta storage is a file that no other process reads",
                code=ErrorCode.NO_SUCCESSOR,
                hint="only a cluster of several coordinators has another leader: `leasehold up --coordinators 3`",
            )
        if request.term > self._leadership.term:
            raise BadMessage(f"term {request.term} has not begun")
        if request.successor and NODE_ADDRESS.fullmatch(request.successor) is None:
            raise BadMessage(f"{request.successor[:80]!r} is not an address")
        if request.term == self._leadership.term and not self.successor.done():
            self.successor.set_result(request.successor)
        return LeadershipEnds()
