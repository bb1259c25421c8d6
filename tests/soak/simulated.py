"""The simulated part: `leasehold-sim campaign` in a process of its own, which leaves the real one its turn."""

import json
import os
import subprocess
import sys
from typing import Any, Self

ENDS_SECONDS = 120.0
"""So long after its time it may still be at its last seed."""
PROGRAM = """
import logging
from leasehold.testing.command import main

logging.disable(logging.CRITICAL)  # what simulated nodes have to say about simulated faults
main()
"""


class Simulated:
    """A campaign under way; a context manager that ends it."""

    def __init__(self, seed: int, minutes: float, *, politely: bool, program: str = PROGRAM) -> None:
        words = ["campaign", "--minutes", str(minutes), "--first", str(seed), "--output", "json"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        if politely:
            os.setpriority(os.PRIO_PROCESS, self._process.pid, 19)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def failed(self) -> bool:
        """Whether it has found something: it has said on stderr what, and how to repeat it."""
        return self._process.poll() not in (None, 0)

    def tally(self) -> dict[str, Any]:
        """What it came to, once it has ended."""
        out, _ = self._process.communicate(timeout=ENDS_SECONDS)
        tally = json.loads(out) if out else {}
        if self._process.returncode != 0:
            tally["violations"] = max(1, tally.get("violations", 0))
        return tally

    def stop(self) -> None:
        """There is nothing more to find: the other part has found something."""
        self._process.kill()
