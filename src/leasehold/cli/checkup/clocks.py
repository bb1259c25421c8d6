"""The checkup of clocks: those of each coordinator against those of this host.

A coordinator says for how long it has run, by the clock of its leases. It looks at its clock at some instant between
the question and its answer. So two looks, some time apart, bound how fast its clock runs as seen from here. Only a
difference that is certain is wrong.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from leasehold.cli.checkup.finding import HostFinding, fine, wrong
from leasehold.cli.checkup.network import OtherProcess
from leasehold.core.lease.drift import MILLION
from leasehold.core.words.messages import ClusterFacts, WhoAreYou
from leasehold.errors import BadMessage, LeaseholdError
from leasehold.limits.checkup import CHECKUP_CLOCK_NS, CHECKUP_CLOCK_QUESTIONS, CHECKUP_CONNECT_NS
from leasehold.limits.lease import DRIFT_PPM
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.ports import Clock
from leasehold.wire.tls import Tls

_SOURCE: Final = (
    "find the machine that is wrong (`chronyc tracking`), and try another current_clocksource in"
    " /sys/devices/system/clocksource/clocksource0 there"
)


class ClockLook(NamedTuple):
    """What a coordinator said of its clock, and this host's clock before and after."""

    asked_ns: int
    heard_ns: int
    running_ns: int


def check_clocks(process: OtherProcess, tls: Tls | None, clock: Clock, sleep: Callable[[int], None]) -> HostFinding:
    """Looks twice at the clock of a coordinator. `sleep` waits for a time in nanoseconds."""
    connection = BlockingConnection(process.address, tls)
    try:
        first = _look(connection, clock)
        if not first.running_ns:
            return fine(f"clock speed of {process.check}", "not compared: it is of an older version")
        sleep(CHECKUP_CLOCK_NS)
        second = _look(connection, clock)
    except LeaseholdError as error:
        return wrong(f"clock speed of {process.check}", error.text, error.hint)
    finally:
        connection.close()
    return _compare_speed(process, first, second)


def _look(connection: BlockingConnection, clock: Clock) -> ClockLook:
    """The shortest of several looks. Raises what a call raises."""
    looks: list[ClockLook] = []
    for _ in range(CHECKUP_CLOCK_QUESTIONS):
        asked_ns = clock.now_ns()
        facts = connection.call(WhoAreYou(), CHECKUP_CONNECT_NS)
        heard_ns = clock.now_ns()
        if not isinstance(facts, ClusterFacts):
            raise BadMessage(f"{connection.address} answers with {type(facts).__name__}")
        looks.append(ClockLook(asked_ns, heard_ns, facts.running_ns))
    return min(looks, key=lambda look: look.heard_ns - look.asked_ns)


def _compare_speed(process: OtherProcess, first: ClockLook, second: ClockLook) -> HostFinding:
    """The two clocks of leases, which may gain or lose DRIFT_PPM."""
    check = f"clock speed of {process.check}"
    there_ns = second.running_ns - first.running_ns
    if there_ns <= 0:
        return wrong(check, "its process has started again meanwhile", "run this command again")
    longest_ns, shortest_ns = second.heard_ns - first.asked_ns, max(1, second.asked_ns - first.heard_ns)
    least_ppm, most_ppm = (MILLION * (there_ns - here_ns) / here_ns for here_ns in (longest_ns, shortest_ns))
    if least_ppm > DRIFT_PPM:
        return wrong(check, f"at least {_percent(least_ppm)} faster than here, where 1 % is allowed", _SOURCE)
    if most_ppm < -DRIFT_PPM:
        return wrong(check, f"at least {_percent(-most_ppm)} slower than here, where 1 % is allowed", _SOURCE)
    return fine(check, f"as here, to within {_percent(max(most_ppm, -least_ppm))}")


def _percent(ppm: float) -> str:
    return f"{ppm / 10_000:,.2f} %"
