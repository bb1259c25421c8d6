"""What `leasehold doctor` finds of clocks: with real sockets, and clocks that run as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from tests.unit.cli.finding_words import is_wrong

from leasehold.certificates.names import CertificateRole
from leasehold.cli.checkup.clocks import check_clocks
from leasehold.cli.checkup.finding import HostFinding
from leasehold.cli.checkup.network import OtherProcess
from leasehold.core.words.messages import ClusterFacts, Message
from leasehold.ids import ClusterId, Generation, Term
from leasehold.limits.checkup import CHECKUP_CLOCK_NS
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.ports import Duplex
from leasehold.wire.rpc import serve


class SetClock(BoottimeClock):
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.passed_ns = 0

    def now_ns(self, _clock_id: int = 0) -> int:
        return 7 * SECOND_NS + self.passed_ns

    def sleep(self, span_ns: int) -> None:
        self.passed_ns += span_ns


class Coordinator:
    """Tells clocks that run `faster_ppm` faster than those here; each way to it takes `way_ns`."""

    def __init__(self, here: SetClock, *, faster_ppm: int = 0, way_ns: int = 0) -> None:
        self._here = here
        self._faster_ppm = faster_ppm
        self._way_ns = way_ns
        self.began_ns = -SECOND_NS
        self.asked = 0

    async def call(self, request: Message) -> Message:
        del request
        self.asked += 1
        self._here.passed_ns += self._way_ns
        running_ns = (self._here.passed_ns - self.began_ns) * (1_000_000 + self._faster_ppm) // 1_000_000
        self._here.passed_ns += self._way_ns
        return ClusterFacts(
            cluster_id=ClusterId("c" * 32),
            generation=Generation(1),
            term=Term(1),
            leader=True,
            running_ns=running_ns,
        )

    async def stream(self, request: Message) -> AsyncIterator[Message]:
        yield request

    async def session(self, duplex: Duplex) -> None:
        await duplex.close()


async def found(here: SetClock, there: Coordinator, sleep: Callable[[int], None] | None = None) -> HostFinding:
    server = await serve("127.0.0.1:0", there, on_fault=lambda _fault: None)
    process = OtherProcess(CertificateRole.COORDINATOR, "", server.address)
    try:
        return await asyncio.to_thread(check_clocks, process, None, here, sleep or here.sleep)
    finally:
        await server.close()


async def test_clocks_that_agree_as_far_as_the_way_there_lets_it_be_told() -> None:
    here = SetClock()
    speed = await found(here, Coordinator(here, way_ns=MILLISECOND_NS))
    assert (speed.ok, speed.text) == (True, "as here, to within 0.10 %")


@pytest.mark.parametrize(("faster_ppm", "words"), [(15_000, "1.50 % faster"), (-15_000, "1.50 % slower")])
async def test_a_clock_that_runs_at_another_rate(faster_ppm: int, words: str) -> None:
    here = SetClock()
    is_wrong(await found(here, Coordinator(here, faster_ppm=faster_ppm)), words, "clocksource")


@pytest.mark.parametrize("faster_ppm", [9_000, -9_000])
async def test_a_clock_within_what_leases_allow(faster_ppm: int) -> None:
    here = SetClock()
    assert (await found(here, Coordinator(here, faster_ppm=faster_ppm))).text == "as here, to within 0.90 %"


@pytest.mark.parametrize("faster_ppm", [15_000, -15_000])
async def test_only_what_is_certain_is_wrong(faster_ppm: int) -> None:
    here = SetClock()
    slow = Coordinator(here, faster_ppm=faster_ppm, way_ns=CHECKUP_CLOCK_NS // 100)
    assert (await found(here, slow)).ok
    here = SetClock()
    assert (await found(here, Coordinator(here, faster_ppm=faster_ppm, way_ns=MILLISECOND_NS))).ok is False


async def test_a_coordinator_that_starts_again_or_goes_away_or_says_nothing() -> None:
    here = SetClock()
    there = Coordinator(here)

    def restarted(span_ns: int) -> None:
        here.sleep(span_ns)
        there.began_ns = here.passed_ns - SECOND_NS

    is_wrong(await found(here, there, restarted), "started again", "run this command again")
    silent = Coordinator(here)
    silent.began_ns = here.passed_ns
    finding = await found(here, silent)
    assert (finding.ok, finding.text) == (True, "not compared: it is of an older version")
    process = OtherProcess(CertificateRole.COORDINATOR, "", "127.0.0.1:1")
    finding = await asyncio.to_thread(check_clocks, process, None, here, here.sleep)
    is_wrong(finding, "127.0.0.1:1")
