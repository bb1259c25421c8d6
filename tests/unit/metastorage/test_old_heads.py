"""A store that is set back under a coordinator is told from one that answers with an old head for a moment."""

import asyncio

import pytest

from leasehold.core.log.entry import BEGINNING
from leasehold.errors import Indefinite, Unreachable
from leasehold.limits.log import LOG_HEAD_POLL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.log.bootstrap import SET_BACK_LOOKS, OldHeads, StoreSetBack
from leasehold.metastorage.log.log import OldHead
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual

OLD, NONE = OldHead("an old head"), Unreachable("no answer")


def polls(errors: list[Indefinite | None]) -> None:
    """One look at the head after the other; None stands for a head that was read."""

    async def main(_random: object) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        heads = OldHeads(SimulatedClock(loop))
        for error in errors:
            if error is None:
                heads.end()
            else:
                heads.met(error, BEGINNING)
            await asyncio.sleep(LOG_HEAD_POLL_NS / SECOND_NS)

    run_virtual(main, 1)


def test_old_heads_in_a_row_end_a_coordinator() -> None:
    polls([OLD] * SET_BACK_LOOKS)
    with pytest.raises(StoreSetBack):
        polls([OLD] * (SET_BACK_LOOKS + 1))


@pytest.mark.parametrize("between", [None, NONE])
def test_old_heads_with_something_else_between_them_do_not(between: Indefinite | None) -> None:
    polls([OLD, *[between] * SET_BACK_LOOKS, OLD, between, OLD])
