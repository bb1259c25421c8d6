"""This side of a process that takes JSON lines: ask it, hear its events, wait for its answer."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from leasehold.client.trust import TLS_VARIABLE
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock, sleep_ns
from leasehold.wire.tls import Tls, read_tls

ROOT = Path(__file__).parents[2]
ANSWER_SECONDS = 60.0
POLL_NS = 5_000_000

T = TypeVar("T")


class Machine(Protocol):
    """Where a process can be started."""

    def command(self, *words: str) -> list[str]:
        """`words` as a command that runs there."""
        ...


class Trusting:
    """A machine whose programs find a bundle in their environment."""

    def __init__(self, machine: Machine, bundle: str) -> None:
        self._machine = machine
        self._bundle = bundle

    def command(self, *words: str) -> list[str]:
        return self._machine.command("env", f"{TLS_VARIABLE}={self._bundle}", *words)


def own_trust() -> Tls | None:
    """What a program on such a machine takes for connections of its own; None on any other."""
    bundle = os.environ.get(TLS_VARIABLE)
    return None if bundle is None else read_tls(Path(bundle))


class Failed(Exception):
    """What it was told to do ended in an error of ours."""

    def __init__(self, kind: str, code: str, text: str) -> None:
        super().__init__(f"{kind} [{code}]: {text}")
        self.code = code


class Asked:
    """One request under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: list[dict[str, Any]] = []
        self._last: dict[str, Any] | None = None

    def heard(self, line: dict[str, Any]) -> None:
        with self._changed:
            if "event" in line:
                self._events.append(line)
            else:
                self._last = line
            self._changed.notify_all()

    def event(self, name: str, holds: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """The first event of this name, once there is one. Fails if the request ends without."""
        with self._changed:
            while True:
                for event in self._events:
                    if event["event"] == name and holds(event):
                        return event
                assert self._last is None, f"it ended without {name}: {self._last}, {self._events}"
                assert self._changed.wait(ANSWER_SECONDS), f"no {name} came: {self._events}"

    def answer(self) -> Any:
        """What it ends with; raises `Failed`."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._last is not None, ANSWER_SECONDS), "no answer came"
            assert self._last is not None
            if "error" in self._last:
                raise Failed(**self._last["error"])
            return self._last["answer"]


class Remote:
    """A process on a host that answers JSON lines; it ends with `close`, or with this process."""

    def __init__(self, host: Machine, *words: str) -> None:
        self._process = subprocess.Popen(
            host.command(sys.executable, "-m", *words),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        self._asked: dict[int, Asked] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def ask(self, do: str, **words: Any) -> Asked:
        """Sends a request and returns at once."""
        asked = Asked()
        with self._lock:
            number = len(self._asked)
            self._asked[number] = asked
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "do": do, **words}) + "\n")
            self._process.stdin.flush()
        return asked

    def call(self, do: str, **words: Any) -> Any:
        """Sends a request and waits for its answer."""
        return self.ask(do, **words).answer()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            self._asked[message["id"]].heard(message)
        gone = {"error": {"kind": "Gone", "code": "GONE", "text": "the process has ended"}}
        for asked in self._asked.values():
            asked.heard(gone)


def wait_until(holds: Callable[[], T | None], *, said: Callable[[], object] = lambda: "", seconds: float = 30.0) -> T:
    """What `holds` answers, as soon as it is neither None nor False. Fails with what `said` tells if it never is."""
    clock = BoottimeClock()
    deadline_ns = clock.now_ns() + int(seconds * SECOND_NS)
    while True:
        found = holds()
        if found:
            return found
        if clock.now_ns() >= deadline_ns:
            raise AssertionError(f"what was waited for did not come: {said()}")
        sleep_ns(POLL_NS)
