"""What supervisors of simulated nodes tell the coordinators: that a process has ended, as `cli/supervisor.py` does.

A supervisor sends from a host of its own, over ways that lose and double what it says, or deliver it so late that the
next process of its node has joined. Nobody cuts these ways: what a report must not do, it must not do at any time.
"""

import asyncio
from typing import Final

from leasehold.core.words.messages import ProcessEndReported, ReportProcessEnd
from leasehold.errors import LeaseholdError
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.machines import SimulatedNode
from leasehold.testing.network import Link
from leasehold.testing.site import Site

PAUSES_S: Final = (0.1, 0.4, 1.6, 4.0)
ANSWER_NS: Final = 500 * MILLISECOND_NS
TO_COORDINATORS: Final = Link(loss=0.2, late=0.2, doubled=0.3, late_max_ns=10 * SECOND_NS)


class EndReports:
    """Reports of one simulated cluster; `group` owns their tasks."""

    def __init__(self, cluster: Site, group: asyncio.TaskGroup) -> None:
        self._cluster = cluster
        self._group = group

    def send(self, node: SimulatedNode) -> bool:
        """The process that ran last on the node has ended: its supervisor says so. False if it had nothing to say."""
        if node.end_report is None:
            return False
        node.data.links.clear()
        self._group.create_task(self._tell(node.name, *node.end_report))
        return True

    async def _tell(self, name: str, addresses: tuple[str, ...], report: ReportProcessEnd) -> None:
        host = f"{name}-supervisor"
        for address in addresses:
            self._cluster.network.set_link(host, address.rpartition(":")[0], TO_COORDINATORS)
        for pause_s in PAUSES_S:
            answers = await asyncio.gather(*(self._ask(host, address, report) for address in addresses))
            if any(answers):
                return
            await asyncio.sleep(pause_s)

    async def _ask(self, host: str, address: str, report: ReportProcessEnd) -> bool:
        connection = self._cluster.network.host(host).connect(address)
        try:
            answer = await connection.call(report, timeout_ns=ANSWER_NS)
        except LeaseholdError:
            return False
        finally:
            await connection.close()
        return isinstance(answer, ProcessEndReported)
