"""The child's side of the supervisor (`cli/supervisor.py`): becoming one, and the channel to it.

It is loaded before anything else, and again by `cli/serve.py`. So it imports nothing large.
"""

import contextlib
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Final

from leasehold.cli import supervisor

_RESTARTS: Final = ("on-failure", "never")
_SHOWING: Final = frozenset({"--help", "-h", "--standalone"})


def become_supervisor(words: list[str]) -> None:
    """Replaces this process by the supervisor of the node or coordinator that these words start. Returns for any other
    command, for the child of a supervisor, and where the kernel tells nobody that a whole process has ended.

    It also sets what Arrow reads when it is loaded by such a process."""
    restart = _restart(words)
    if restart is not None:
        # Read where Arrow is loaded. Arrow's own allocator keeps memory for each thread (`wire/memory.py`).
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if restart is None or supervisor.CHANNEL in os.environ or not hasattr(os, "pidfd_open"):
        return
    program = [sys.executable, "-I", "-S", str(Path(supervisor.__file__).resolve()), restart]
    os.execv(sys.executable, [*program, sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - no shell on purpose


def _restart(words: list[str]) -> str | None:
    """What `--restart` says, None for a command that is not supervised or is mistaken."""
    if not (words[:1] == ["coordinator"] or words[:2] == ["node", "start"]) or _SHOWING.intersection(words):
        return None
    asked = _RESTARTS[0]
    for number, word in enumerate(words):
        if word == "--restart":
            asked = "".join(words[number + 1 : number + 2])
        elif word.startswith("--restart="):
            asked = word.removeprefix("--restart=")
    return asked if asked in _RESTARTS else None


class SupervisorChannel:
    """This process's end of the channel; nothing that it starts inherits it."""

    def __init__(self, end: int) -> None:
        self._end = end
        os.set_inheritable(end, False)
        os.set_blocking(end, False)

    @classmethod
    def of_this_process(cls) -> "SupervisorChannel | None":
        """The channel to the supervisor of this process, None if it has none."""
        text = os.environ.pop(supervisor.CHANNEL, "")
        if not text.isdecimal() or len(text) > 9:
            return None
        try:
            is_socket = stat.S_ISSOCK(os.fstat(int(text)).st_mode)
        except OSError:
            return None
        return cls(int(text)) if is_socket else None

    def fileno(self) -> int:
        return self._end

    def hand_over(
        self, addresses: tuple[str, ...], acceptance: bytes, request: bytes, tls: tuple[str, ...] = (), links: str = ""
    ) -> None:
        """What to send to these coordinators once this process has ended, and which bytes accept it. Over `tls`: the
        name in their certificates, the file of the roots, and that of this process's certificate and key. `links` is a
        folder to take away first."""
        words = " ".join(addresses), acceptance.hex(), "\0".join(tls), links
        record = b"\n".join((*(os.fsencode(one) for one in words), request))
        with contextlib.suppress(OSError):  # the supervisor is gone, or hangs and has the older ones
            os.write(self._end, record)

    def on_readable(self) -> None:
        """Stops this process in order, as SIGTERM does, if the supervisor is gone: nobody would find it any more."""
        with contextlib.suppress(BlockingIOError):
            if not os.read(self._end, 1):
                os.kill(os.getpid(), signal.SIGTERM)
