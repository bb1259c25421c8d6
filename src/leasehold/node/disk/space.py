"""Whether the disk of a node is full: shown to people, nothing is decided by it.

It is full from a write of rows, of the serve log or of the vault that finds no space, until a trial write succeeds.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final, NoReturn

from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.node_disk import DISK_TRIAL_BYTES, DISK_TRIAL_NS
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)

TRIAL_FILE: Final = "space-trial"


@contextlib.contextmanager
def noting(published: Published) -> Generator[None]:
    """Around a write to the disk, on any thread: notes a DISK_FULL error, and passes it on."""
    try:
        yield
    except Refused as error:
        if error.code == ErrorCode.DISK_FULL:
            published.disk_full = True
        raise


async def watch_space(directory: Path, published: Published, clock: Clock) -> NoReturn:
    """Runs beside the agent as long as the process: checks whether a full disk has space again."""
    is_told = False
    while True:
        await clock.sleep_until(clock.now_ns() + DISK_TRIAL_NS)
        if published.disk_full and not is_told:
            is_told = True
            log.warning(
                "DISK_FULL: no space is left under %s; free some space, and the node continues by itself", directory
            )
        if published.disk_full and await asyncio.to_thread(_has_space, directory):
            published.disk_full = is_told = False
            log.info("space is available under %s again", directory)


def _has_space(directory: Path) -> bool:
    """Whether DISK_TRIAL_BYTES can be written and synced."""
    path = directory / TRIAL_FILE
    try:
        with path.open("wb") as file:
            file.write(bytes(DISK_TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
    return True
