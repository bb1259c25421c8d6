"""One session that is open, and how one ended."""

import asyncio
import logging
from typing import NamedTuple

import msgspec

from leasehold.coordinator.nodes.queues import Outbox, ReportQueue
from leasehold.core.words.messages import (
    Message,
    RecoveryFinished,
    Renewal,
)
from leasehold.errors import LeaseholdError
from leasehold.ids import Incarnation

log = logging.getLogger(__name__)


class OpenedSession(msgspec.Struct):
    """What the leader keeps of the stream of one node process while it is open."""

    incarnation: Incarnation
    heard_ns: int
    outbox: Outbox
    reports: ReportQueue
    opened: asyncio.Event
    """Set once the answer to its opening is in the outbox."""
    recovered: asyncio.Event
    ended: asyncio.Event
    finished: RecoveryFinished | None = None
    """The newest one, until it is looked at: it is repeated with a later revision."""
    error: LeaseholdError | None = None
    """What the node is told at its end, if that is no end in order."""
    disk_full: bool = False
    how: str = "CLOSED"
    """How it ends (`SessionEnd`)."""

    def heard_full(self, renewal: Renewal) -> None:
        """Whether the node's disk is full: said in the log when it changes."""
        if renewal.disk_full and not self.disk_full:
            log.warning("the disk of node %d is full: it takes no rows until there is space", renewal.node)
        elif self.disk_full and not renewal.disk_full:
            log.info("the disk of node %d takes writes again", renewal.node)
        self.disk_full = renewal.disk_full

    def reply(self, message: Message) -> None:
        """Hands a message to this stream; one that does not read is cut off."""
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
