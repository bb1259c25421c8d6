"""What certificates and keys of this process are now: their files may be replaced while it runs.

`leasehold ca renew` and `ca trust` do that, and people who change the cluster key. A process looks whether a file has
changed, and uses what it finds for whatever comes next. What is of no use is not taken: the process goes on with what
it has, and says so.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, NoReturn, TypeVar

from leasehold.certificates.files import CA, IDENTITY
from leasehold.errors import BadCertificate, BadSettings
from leasehold.limits.certificates import CERTIFICATE_END_TOLD_NS, CERTIFICATE_FILES_LOOK_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.ports import Clock
from leasehold.wire.tasks import until_set_or_due
from leasehold.wire.tls import Tls

log = logging.getLogger(__name__)

T = TypeVar("T")

_CLOCK: Final = BoottimeClock()

_Seen = tuple[tuple[int, int, int] | None, ...]
"""Of each file: its number, size, and time of the last change."""


class CurrentFile(Generic[T]):
    """What is in a file, or in the bundle with this `path`. Any thread may use it.

    `read` reads it; what it raises at first is raised here. The file is looked at again after
    CERTIFICATE_FILES_LOOK_NS at the earliest.
    """

    def __init__(self, path: Path, read: Callable[[Path], T], clock: Clock = _CLOCK) -> None:
        self.path = path
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = self._look()
        self._found = read(path)
        self._look_ns = clock.now_ns() + CERTIFICATE_FILES_LOOK_NS

    def now(self) -> T:
        if self._clock.now_ns() >= self._look_ns:
            self.look()
        return self._found

    def look(self) -> bool:
        """Reads it if it has changed since it was last read; whether it says something new."""
        with self._lock:
            self._look_ns = self._clock.now_ns() + CERTIFICATE_FILES_LOOK_NS
            seen = self._look()
            if seen == self._seen:
                return False
            try:
                found = self._read(self.path)
                self._check(self._found, found)
            except BadSettings as error:
                log.warning("going on with what was in %s before: %s", self.path, error)
                return False
            self._seen = seen
            changed, self._found = found != self._found, found
            return changed

    def _check(self, before: T, found: T) -> None:
        """Raises `BadSettings` for what must not take the place of `before` while the process runs."""

    def _look(self) -> _Seen:
        files = (self.path / IDENTITY, self.path / CA) if self.path.is_dir() else (self.path,)
        return tuple(map(_changed, files))


def _changed(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class TlsFiles(CurrentFile[Tls]):
    """Implements `wire.tls.TlsSource` with a bundle, or with a file of authorities."""

    def _check(self, before: Tls, found: Tls) -> None:
        if found.authority != before.authority:
            raise BadCertificate(
                f"{self.path} is of the authority {found.authority} now, and was of {before.authority}",
                hint="if that is meant, start this process again",
            )


async def watch(
    file: CurrentFile[T], found: T, clock: Clock, told: asyncio.Event, on_change: Callable[[T], None]
) -> NoReturn:
    """Looks at a file each CERTIFICATE_FILES_LOOK_NS, and whenever `told` is set. `found`: what is in use so far."""
    while True:
        file.look()
        before, found = found, file.now()  # another task may have looked first
        if found != before:
            on_change(found)
        await until_set_or_due(told, clock.now_ns() + CERTIFICATE_FILES_LOOK_NS, clock)
        told.clear()


def say_renewed(tls: Tls) -> None:
    log.info(
        "new connections use a certificate that holds until %s, and trust authorities: %d",
        tls.until,
        tls.roots.count(b"-----BEGIN CERTIFICATE"),
    )


async def say_ended(files: TlsFiles, clock: Clock) -> NoReturn:
    """While the certificate has ended, says so each CERTIFICATE_END_TOLD_NS: new connections fail then, and those that
    are open go on."""
    while True:
        until = files.now().until
        if until is not None and until <= datetime.now(UTC):
            log.error(
                "the certificate in %s has ended at %s, so new connections of this process fail: renew it with"
                " `leasehold ca renew`; no restart is needed",
                files.path,
                until,
            )
        await clock.sleep_until(clock.now_ns() + CERTIFICATE_END_TOLD_NS)
