"""Appends an entry until it is known whether it happened: drives `core.log.append` with the log and a clock."""

from collections.abc import Callable
from typing import NamedTuple

from leasehold.core.log.append import FINAL, Append, AppendState
from leasehold.core.log.entry import DraftEntry
from leasehold.errors import Definite, Indefinite
from leasehold.limits.log import LOG_RETRY_NS
from leasehold.metastorage.log.log import Log, LogFence, LogHead
from leasehold.wire.ports import Clock


class AppendOutcome(NamedTuple):
    """What became of an append."""

    happened: bool
    """Whether the entry is in the log; False if it surely never will be."""
    head: LogHead | None
    """The head, if it is this entry."""


async def append_surely(
    log: Log, entry: DraftEntry, head: LogHead, fence: LogFence | None, *, lasts: Callable[[], bool], clock: Clock
) -> AppendOutcome:
    """Appends an entry after `head`. Raises what the store declines the only try with, and `Indefinite` if the outcome
    is not known when `lasts` no longer holds."""
    append, ours = Append(entry.entry), None
    while append.state not in FINAL:
        try:
            match append.state:
                case AppendState.SENDING:
                    ours = await log.append(entry, head, fence)
                    append.answered(done=ours is not None)
                case AppendState.LOOKING:
                    found = await log.head()
                    append.head_is(found.position)
                    ours = found if found.position == entry.position else None
                case _:
                    append.entry_is(await log.entry(entry.entry.number))
        except (Definite, Indefinite) as error:
            if isinstance(error, Indefinite):
                append.unanswered()
            elif not append.is_unsure:
                raise
            if not lasts():
                raise Indefinite(
                    "the leadership ended before it was known whether this was written",
                    hint="ask again with the same id",
                ) from error
            await clock.sleep_until(clock.now_ns() + LOG_RETRY_NS)
    if append.state is AppendState.UNKNOWN:
        raise Indefinite("the log was trimmed before it was known whether this was written")
    return AppendOutcome(append.state is AppendState.APPENDED, ours)
