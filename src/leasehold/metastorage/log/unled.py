"""Makes sure that nobody leads in a log, before a command marks it or begins a new generation there."""

from collections.abc import Callable

from leasehold.core.log.leadership import Challenger, Standing
from leasehold.core.words.records import LeaderRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.lease import LEADER_COURTESY_NS, LEADER_POLL_NS
from leasehold.metastorage.log.campaign import TIMING
from leasehold.metastorage.log.log import Log
from leasehold.metastorage.log.patience import PatientClient


class StillLed(Refused):
    """A coordinator leads in the log."""

    default_code = ErrorCode.STILL_LED


async def unled(shared: Log, client: PatientClient) -> Standing | None:
    """The leader record, once nobody can lead by it any more: a swap that compares it comes before the next leader.
    Raises `StillLed` if it changes meanwhile.

    A coordinator on standby takes the record of one that has resigned within two looks, or after the courtesy to a
    named successor. So that is waited for too, and coordinators that run are noticed.
    """
    # Never the name of a successor, so it waits as long as anybody.
    challenger, clock = Challenger(TIMING, ""), client.clock
    seen = standing = await client.surely(shared.leader)
    began_ns = clock.now_ns()
    until_ns = began_ns if seen is None else began_ns + LEADER_COURTESY_NS + 2 * LEADER_POLL_NS
    while (now_ns := clock.now_ns()) < (due_ns := max(until_ns, challenger.due_ns(standing, now_ns))):
        await clock.sleep_until(min(due_ns, now_ns + LEADER_POLL_NS))
        standing = await client.surely(shared.leader)
        if standing != seen:
            raise still_led(standing)
    return seen


async def raise_term(shared: Log, client: PatientClient, raised: Callable[[LeaderRecord | None], LeaderRecord]) -> None:
    """Lets the term jump: replaces the leader record. Raises `StillLed`, and `Unreachable`."""
    standing = await unled(shared, client)
    record = raised(None if standing is None else standing.record)
    if await client.surely(lambda: shared.elect(standing, record)) is not None:
        return
    found = await client.surely(shared.leader)
    if found is None or found.record != record:  # else an earlier try has happened
        raise still_led(found)


def still_led(standing: Standing | None) -> StillLed:
    """The error for a log whose leader record is this one."""
    holder = "another coordinator" if standing is None else standing.record.holder or "another coordinator"
    return StillLed(f"{holder} leads in the log", hint="stop every coordinator first, then run the command again")
