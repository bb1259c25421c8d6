"""A coordinator process before its meta storage is open: it waits for the store, and answers that it does not lead.

A supervisor starts the store and the coordinator at the same time, so a store that does not answer yet is waited for.
Whoever asks this coordinator meanwhile hears why it does not lead. What the store or the directory declines ends the
process: somebody has to correct it.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from leasehold.coordinator.runtime import Coordinator
from leasehold.core.access.callers import Caller
from leasehold.core.words.messages import Message
from leasehold.errors import Indefinite, NotLeader
from leasehold.limits.lease import LEADER_RETRY_NS
from leasehold.metastorage.contract import MetaStorage
from leasehold.wire.ports import Clock, Duplex

log = logging.getLogger(__name__)

S = TypeVar("S", bound=MetaStorage)


class OpeningCoordinator:
    """The service of a coordinator process: that of `opened` once it is set."""

    def __init__(self) -> None:
        self.opened: Coordinator | None = None
        self.obstacle: Indefinite | None = None
        """Why the meta storage could not be opened when it was tried last."""

    async def call(self, request: Message) -> Message:
        return await self._opened().call(request)

    def stream(self, request: Message) -> AsyncIterator[Message]:
        return self._opened().stream(request)

    async def session(self, duplex: Duplex) -> None:
        await self._opened().session(duplex)

    def check_counts(self, caller: Caller | None) -> None:
        """Raises `Forbidden` for a certificate that counts no more, as far as is known here."""
        if self.opened is not None:
            self.opened.check_counts(caller)

    def _opened(self) -> Coordinator:
        if self.opened is not None:
            return self.opened
        text = "this coordinator does not lead: its meta storage is not open yet"
        if self.obstacle is not None:
            text = f"{text}, since {self.obstacle.text} ({self.obstacle.hint})"
        raise NotLeader(text, hint="ask another coordinator, or try again in a moment")


async def open_patiently(
    open_storage: Callable[[], Awaitable[S]], clock: Clock, on_waits: Callable[[Indefinite], None] = lambda _: None
) -> S:
    """A meta storage, which is opened again and again while its store does not answer; `on_waits` gets why."""
    while True:
        try:
            return await open_storage()
        except Indefinite as error:
            log.warning("the meta storage can't be opened yet: %s; %s", error.text, error.hint)
            on_waits(error)
        await clock.sleep_until(clock.now_ns() + LEADER_RETRY_NS)
