"""What waits to be appended: transactions and compactions, in order."""

import asyncio
import copy
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from leasehold.core.words.operations import Txn, TxnResult
from leasehold.errors import LeaseholdError
from leasehold.ids import Revision
from leasehold.limits.metastorage import TRANSACTION_BYTES_MAX
from leasehold.limits.requests import COMMAND_QUEUE_MAX, COMMANDS_PER_TRANSACTION_MAX
from leasehold.metastorage.causes import busy
from leasehold.metastorage.transaction import bytes_of


class LogCommand(NamedTuple):
    """A transaction, or a compaction where `before` is given, and who waits for it."""

    txn: Txn
    before: Revision | None
    answer: "asyncio.Future[TxnResult]"


class LogCommands:
    """A bounded queue."""

    def __init__(self) -> None:
        self._waiting: deque[LogCommand] = deque()
        self._filled = asyncio.Event()

    def put(self, txn: Txn, before: Revision | None) -> "asyncio.Future[TxnResult]":
        """The answer to come. Raises `Refused` with code BUSY when too many wait."""
        if len(self._waiting) >= COMMAND_QUEUE_MAX:
            raise busy()
        answer: asyncio.Future[TxnResult] = asyncio.get_running_loop().create_future()
        self._waiting.append(LogCommand(txn, before, answer))
        self._filled.set()
        return answer

    async def next_batch(self) -> list[LogCommand]:
        """Waits for transactions that join one append, or for one compaction."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        batch = [self._waiting.popleft()]
        size = bytes_of(batch[0].txn)
        while self._waiting and len(batch) < COMMANDS_PER_TRANSACTION_MAX and batch[0].before is None:
            following = self._waiting[0]
            size += bytes_of(following.txn)
            if following.before is not None or size > TRANSACTION_BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
        return batch

    def fail(self, error: LeaseholdError) -> None:
        """Answers all that wait with an error."""
        fail([command.answer for command in self._waiting], error)
        self._waiting.clear()


def fail(answers: Sequence["asyncio.Future[Any]"], error: LeaseholdError) -> None:
    """Answers with an error who has no answer yet."""
    for answer in answers:
        if not answer.done():
            # A copy for each, since raising an error writes the traceback into it.
            answer.set_exception(copy.copy(error))
