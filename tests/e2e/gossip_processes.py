"""Real processes of a physical topology, and what they have told so far."""

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

GIVE_UP_S = 60.0


class MemberProcess:
    """One process; `heard` is what it sees of each other member: state and address."""

    def __init__(self, group: "MemberProcesses", name: str, address: str, seeds: tuple[str, ...]) -> None:
        self.name = name
        self.address = ""
        self.heard: dict[str, tuple[str, str]] = {}
        self.history: list[tuple[float, str, str]] = []
        self.traffic: dict[str, int] | None = None
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.gossip_member", name, address, str(group.key_file), *seeds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(group.told,), daemon=True)
        self._reader.start()

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def take(self, line: dict[str, object], at_s: float) -> None:
        if "sent" in line:
            self.traffic = {key: int(str(value)) for key, value in line.items()}
        elif "state" not in line:
            self.address = str(line["address"])
        else:
            name, state = str(line["name"]), str(line["state"])
            self.heard[name] = (state, str(line["address"]))
            self.history.append((at_s, name, state))

    def sees(self, name: str) -> str | None:
        return self.heard.get(name, (None, ""))[0]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ask(self) -> None:
        assert self.process.stdin is not None
        self.traffic = None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self, told: "queue.Queue[tuple[MemberProcess, dict[str, object], float]]") -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told.put((self, json.loads(line), time.monotonic()))


class MemberProcesses:
    """All of them; a test waits for what they tell, never for time."""

    def __init__(self, key_file: Path) -> None:
        self.key_file = key_file
        self.told: queue.Queue[tuple[MemberProcess, dict[str, object], float]] = queue.Queue()
        self.members: dict[str, MemberProcess] = {}
        self._ended: list[MemberProcess] = []

    def __enter__(self) -> "MemberProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self.members.values(), *self._ended):
            one.end()

    def start(self, name: str, *seeds: str) -> MemberProcess:
        """A process at a port of its own; returns once it hears."""
        if name in self.members:
            self._ended.append(self.members[name])
        member = self.members[name] = MemberProcess(self, name, "127.0.0.1:0", seeds)
        self.until(lambda: bool(member.address))
        return member

    def start_all(self, count: int) -> list[MemberProcess]:
        """n1 and the others, who ask it; returns once all see all."""
        first = self.start("n1")
        members = [first, *(self.start(f"n{number}", first.address) for number in range(2, count + 1))]
        self.until(lambda: all(self.all_see(one.name, "ALIVE") for one in members))
        return members

    def all_see(self, name: str, state: str) -> bool:
        """Whether all others that run do."""
        return all(one.sees(name) == state for one in self.members.values() if one.name != name and one.runs)

    def until(self, holds: Callable[[], bool]) -> float:
        """Reads what they tell until it holds; how long that took, in seconds."""
        began = time.monotonic()
        while not holds():
            left = GIVE_UP_S - (time.monotonic() - began)
            assert left > 0, {one.name: one.heard for one in self.members.values()}
            try:
                member, line, at_s = self.told.get(timeout=left)
            except queue.Empty:
                continue
            member.take(line, at_s)
        return time.monotonic() - began
