"""Liveness: after the world has healed, every statement ends and every node serves, within a time limit.

The other half of INV-DDL-1, and no check of a state: the simulation calls it at the end of a run, when everything is
started, connected and resumed, on the virtual loop that the run is on.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.testing.oracle import Oracle

ID: Final = "LIVENESS"
LIMIT_NS: Final = 60 * SECOND_NS
LOOK_EVERY_NS: Final = 100 * MILLISECOND_NS


async def healed(
    oracle: Oracle,
    *,
    not_serving: Callable[[], Sequence[str]],
    limit_ns: int = LIMIT_NS,
) -> int:
    """Waits until every node serves that should, and no procedure is in the store; returns how long that took, in
    simulated ns.

    Raises `InvariantViolated` (LIVENESS), which names what is left after `limit_ns`.
    """
    began_ns = oracle.real_ns
    while True:
        left = _left(oracle, not_serving())
        if left is None:
            return oracle.real_ns - began_ns
        if oracle.real_ns - began_ns >= limit_ns:
            raise oracle.violation(ID, f"{limit_ns / SECOND_NS:g} s after the world healed {left}")
        await asyncio.sleep(LOOK_EVERY_NS / SECOND_NS)


def _left(oracle: Oracle, not_serving: Sequence[str]) -> str | None:
    if not_serving:
        return f"{', '.join(not_serving)} can't serve"
    running = oracle.history.running()
    if running:
        return f"procedure {running[0].number} ({running[0].text}) has not ended"
    return None
