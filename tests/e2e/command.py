"""The command line as a person runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec


class Ran(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        assert len(self.out.splitlines()) == 1, "one JSON line on stdout"
        return json.loads(self.out)

    def refused(self, code: int, *words: str) -> None:
        """The exit code, one line that says what, one hint, and nothing of a traceback."""
        assert self.code == code, (self.code, self.err)
        assert "Traceback" not in self.err
        lines = self.err.strip().splitlines()
        assert any(line.startswith("error [") for line in lines), self.err
        assert any(line.startswith("hint:") for line in lines), self.err
        for word in words:
            assert word in self.err, (word, self.err)


def leasehold(*arguments: str, directory: Path | None = None, timeout: float = 60) -> Ran:
    command = [sys.executable, "-m", "leasehold.cli.main", *arguments]
    if directory is not None:
        command += ["--dir", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)
