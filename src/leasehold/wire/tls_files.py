"""The certificate and the authorities of this process as its files have them now.

`leasehold ca renew` and `ca trust` replace these files while the process runs. It looks whether they have changed, and
new connections use what it finds. A change that makes them useless, or that names somebody else, is not taken: the
process goes on with what it has, and says so.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

from leasehold.certificates.files import CA, IDENTITY
from leasehold.errors import BadCertificate, BadSettings
from leasehold.limits.certificates import CERTIFICATE_END_TOLD_NS, CERTIFICATE_FILES_LOOK_NS
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.ports import Clock
from leasehold.wire.tasks import until_set_or_due
from leasehold.wire.tls import Tls

log = logging.getLogger(__name__)

_CLOCK: Final = BoottimeClock()

_Seen = tuple[tuple[int, int, int] | None, ...]
"""Of each file: its number, size, and time of the last change."""


class TlsFiles:
    """Implements `wire.tls.TlsSource` with a bundle, or a file of authorities; `read` reads it. Any thread may use it.

    Raises what `read` does for what is there at first, and looks again after CERTIFICATE_FILES_LOOK_NS at the earliest.
    """

    def __init__(self, path: Path, read: Callable[[Path], Tls], clock: Clock = _CLOCK) -> None:
        self.path = path
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = self._look()
        self._tls = read(path)
        self._look_ns = clock.now_ns() + CERTIFICATE_FILES_LOOK_NS

    def now(self) -> Tls:
        if self._clock.now_ns() >= self._look_ns:
            self.look()
        return self._tls

    def look(self) -> bool:
        """Reads the files if they have changed since they were last read; whether they say something new."""
        with self._lock:
            self._look_ns = self._clock.now_ns() + CERTIFICATE_FILES_LOOK_NS
            seen = self._look()
            if seen == self._seen:
                return False
            try:
                found = self._read(self.path)
                if found.authority != self._tls.authority:
                    raise BadCertificate(
                        f"{self.path} is of the authority {found.authority} now, and was of {self._tls.authority}",
                        hint="if that is meant, start this process again",
                    )
            except BadSettings as error:
                log.warning("going on with the certificate of before: %s", error)
                return False
            self._seen = seen
            changed, self._tls = found != self._tls, found
            return changed

    def _look(self) -> _Seen:
        files = (self.path / IDENTITY, self.path / CA) if self.path.is_dir() else (self.path,)
        return tuple(map(_changed, files))


def _changed(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


async def watch_certificate(
    files: TlsFiles, clock: Clock, told: asyncio.Event, on_change: Callable[[], None] = lambda: None
) -> NoReturn:
    """Looks at the files each CERTIFICATE_FILES_LOOK_NS, and whenever `told` is set. While the certificate has ended it
    says so each CERTIFICATE_END_TOLD_NS: new connections fail then, and those that are open go on."""
    tls, say_ns = files.now(), clock.now_ns()
    while True:
        files.look()
        before, tls = tls, files.now()  # a connection may have looked first
        if tls != before:
            log.info(
                "new connections use a certificate that holds until %s, and trust authorities: %d",
                tls.until,
                tls.roots.count(b"-----BEGIN CERTIFICATE"),
            )
            on_change()
        if tls.until is not None and tls.until <= datetime.now(UTC) and clock.now_ns() >= say_ns:
            say_ns = clock.now_ns() + CERTIFICATE_END_TOLD_NS
            log.error(
                "the certificate in %s has ended at %s, so new connections of this process fail: renew it with"
                " `leasehold ca renew`; no restart is needed",
                files.path,
                tls.until,
            )
        await until_set_or_due(told, clock.now_ns() + CERTIFICATE_FILES_LOOK_NS, clock)
        told.clear()
