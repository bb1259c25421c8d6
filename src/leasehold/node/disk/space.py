"""Whether the disk of a node is full or fails, as the leader hears it with each renewal.

It is full from a write of rows, of the serve log or the vault that finds no space, until a trial write succeeds. That
is only shown. It fails from a write of rows or of the serve log that meets another error, such as a sync that fails, or
from a file that the scrub can't read, until the process ends: a later write that succeeds brings nothing back. Then the
buckets of the node get other replicas (`coordinator/replicas/repair.py`).
"""

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final, NoReturn

from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, LeaseholdError
from leasehold.limits.node_disk import DISK_TRIAL_BYTES, DISK_TRIAL_NS
from leasehold.node.agent.published import Published
from leasehold.wire.ports import Clock

log = logging.getLogger(__name__)

TRIAL_FILE: Final = "space-trial"
_LIMITS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of a call that the disk has not heard of."""


@contextlib.contextmanager
def noting(published: Published) -> Generator[None]:
    """Around a write to the disk, on any thread: notes an error of the disk, and passes it on."""
    try:
        yield
    except Definite as error:
        note(error, published)
        raise


def note(error: LeaseholdError, published: Published) -> None:
    """Notes an error of a write to the disk; others change nothing."""
    if error.code == ErrorCode.DISK_FULL:
        published.disk_full = True
    elif error.code == ErrorCode.DISK_ERROR and not published.disk_failing:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _LIMITS:
            return
        published.disk_failing = True
        log.warning("DISK_ERROR: %s; other nodes take over its buckets until this process is restarted", error.text)


async def watch_space(directory: Path, published: Published, clock: Clock) -> NoReturn:
    """Runs beside the agent as long as the process: checks whether a disk that was full has space again."""
    is_told = False
    while True:
        await clock.sleep_until(clock.now_ns() + DISK_TRIAL_NS)
        if published.disk_full and not is_told:
            is_told = True
            log.warning(
                "DISK_FULL: no space is left under %s; free some space, and the node continues by itself", directory
            )
        if published.disk_full and await asyncio.to_thread(_takes_writes, directory):
            log.info("the disk under %s takes writes again", directory)
            published.disk_full = is_told = False


def _takes_writes(directory: Path) -> bool:
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
