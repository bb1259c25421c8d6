"""When a node leaves a coordinator that is silent.

A coordinator answers each renewal, so one that says nothing for some time hangs or is overloaded. Its connection need
not break: a process whose event loop stands still answers pings all the same. The node then asks the next coordinator.
With only one there is nobody else to ask.
"""

from typing import NoReturn

from leasehold.error_codes import ErrorCode
from leasehold.errors import Unreachable
from leasehold.limits.lease import RENEWAL_INTERVAL_NS
from leasehold.limits.sessions import COORDINATOR_QUIET_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.coordinators import KnownCoordinators
from leasehold.wire.ports import Clock


class StreamSilence:
    """Of the coordinator that was asked last, on one stream; begins when it is made."""

    def __init__(self, clock: Clock, coordinators: KnownCoordinators) -> None:
        self._clock = clock
        self._coordinators = coordinators
        self._heard_ns = clock.now_ns()

    def broken(self) -> None:
        """A message came."""
        self._heard_ns = self._clock.now_ns()

    async def end(self) -> NoReturn:
        """Raises `Unreachable` (SILENT) once it has lasted for COORDINATOR_QUIET_NS, if there is another coordinator.

        A process that stood still itself reads first what has come meanwhile.
        """
        while True:
            heard_ns = self._heard_ns
            await self._clock.sleep_until(heard_ns + COORDINATOR_QUIET_NS)
            await self._clock.sleep_until(self._clock.now_ns() + RENEWAL_INTERVAL_NS)
            if self._heard_ns == heard_ns and len(self._coordinators.addresses) > 1:
                silent_s = (self._clock.now_ns() - heard_ns) / SECOND_NS
                text = f"the coordinator at {self._coordinators.asked} has been silent for {silent_s:.1f} s"
                raise Unreachable(text, code=ErrorCode.SILENT, hint="the node asks another coordinator")
