"""An open session, and the end of one."""

import asyncio
import logging
from typing import NamedTuple

import msgspec

from leasehold.coordinator.nodes.queues import Outbox, ReportQueue
from leasehold.core.access.callers import Caller
from leasehold.core.words.messages import Message, RecoveryFinished, Renewal
from leasehold.errors import LeaseholdError
from leasehold.ids import Incarnation

log = logging.getLogger(__name__)


class OpenedSession(msgspec.Struct):
    """The open stream of one node process, at the leader."""

    incarnation: Incarnation
    heard_ns: int
    caller: Caller | None = None
    """Who opened it, by its certificate."""
    outbox: Outbox = msgspec.field(default_factory=Outbox)
    reports: ReportQueue = msgspec.field(default_factory=ReportQueue)
    opened: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    """Set once `SessionOpened` is in the outbox."""
    recovered: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    ended: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    finished: RecoveryFinished | None = None
    """The newest one that was received."""
    error: LeaseholdError | None = None
    """Sent to the node at the end, unless that is in order."""
    disk_full: bool = False
    disk_failing: bool = False
    how: str = "CLOSED"
    """As in `SessionEnd`."""

    def heard_disk(self, renewal: Renewal) -> None:
        """Notes whether the node's disk is full or fails, and logs a change of that."""
        if renewal.disk_full and not self.disk_full:
            log.warning("the disk of node %d is full: it takes no rows until there is space", renewal.node)
        elif self.disk_full and not renewal.disk_full:
            log.info("the disk of node %d takes writes again", renewal.node)
        self.disk_full = renewal.disk_full
        if renewal.disk_failing and not self.disk_failing:
            log.warning("the disk of node %d fails: its log says how", renewal.node)
        self.disk_failing = renewal.disk_failing

    def reply(self, message: Message) -> None:
        """Sends a message; a stream whose node does not read is ended."""
        try:
            self.outbox.put(message)
        except asyncio.QueueFull:
            self.how = "NO_ANSWER"
            self.ended.set()


class EndedSession(NamedTuple):
    """How the last session of a node ended, and when by the leader's clock."""

    incarnation: Incarnation
    how: str
    at_ns: int
