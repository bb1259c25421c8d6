"""The check of a node's vault while the node runs: a large vault is not checked completely when it is opened.

It begins after the first lease, so that no start waits for it, and goes on slowly: a few items, then a pause. Damage
ends the process by the `Corrupt` that opening the vault would have raised.
"""

from typing import NoReturn

from leasehold.limits.units import SECOND_NS
from leasehold.limits.vault import VAULT_SCRUB_INTERVAL_NS, VAULT_SCRUB_REST_NS, VAULT_SCRUB_ROWS
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock, Vault


async def scrub(vault: Vault, clock: Clock, published: Published) -> NoReturn:
    """Runs beside the agent as long as the process. Raises `Corrupt`, also for damage that a reader of segments met."""
    while not published.had_lease:
        await _pause(clock, VAULT_SCRUB_INTERVAL_NS)
    while True:
        while not await vault.verify(VAULT_SCRUB_ROWS):
            await _pause(clock, VAULT_SCRUB_INTERVAL_NS)
        rested_ns = clock.now_ns() + VAULT_SCRUB_REST_NS
        while clock.now_ns() < rested_ns:
            await vault.verify(0)
            await _pause(clock, SECOND_NS)


async def _pause(clock: Clock, pause_ns: int) -> None:
    await clock.sleep_until(clock.now_ns() + pause_ns)
