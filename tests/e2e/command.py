"""The command line as a person runs it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import msgspec

from tests.e2e.template import template


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


def words(*arguments: str, directory: Path | None = None) -> list[str]:
    """What comes behind `leasehold`."""
    return [*arguments, *([] if directory is None else ["--dir", str(directory)])]


def command(*arguments: str, directory: Path | None = None) -> list[str]:
    return [sys.executable, "-m", "leasehold.cli.main", *words(*arguments, directory=directory)]


def leasehold(*arguments: str, directory: Path | None = None, timeout: float = 60, **environment: str) -> Ran:
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = template().start(words(*arguments, directory=directory), out, err, os.environ | environment)
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        for said in (out, err):
            said.seek(0)
        return Ran(code, out.read(), err.read())


class Running:
    """A command under way, to be interrupted; used as a context manager, it does not outlive the test."""

    def __init__(self, *arguments: str, directory: Path) -> None:
        self._process = subprocess.Popen(
            command(*arguments, directory=directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def wait_until_it_says(self, words: str) -> None:
        """Until a line on stderr holds these words; fails if it ends without."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if words in line:
                return
        raise AssertionError(f"it ended without saying {words!r}: {self._said}")

    def runs(self) -> bool:
        return self._process.poll() is None

    def interrupted(self, number: signal.Signals) -> Ran:
        """How it ends after this signal."""
        self._process.send_signal(number)
        _, rest = self._process.communicate(timeout=30)
        return Ran(self._process.returncode, "", "".join(self._said) + rest)
