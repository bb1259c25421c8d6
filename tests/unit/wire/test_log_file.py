"""How large a log file gets."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from leasehold.limits.processes import LOG_LOOK_LINES
from leasehold.wire import log_file
from leasehold.wire.log_file import BoundedLog

KEPT = 2_000
MOST = 10_000


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "LOG_BYTES_MAX", MOST)
    monkeypatch.setattr(log_file, "LOG_BYTES_KEPT", KEPT)


@pytest.fixture(params=[os.O_APPEND, 0], ids=["added to", "written"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, TextIO]]:
    path = tmp_path / "log"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | request.param), "w") as file:
        yield path, file


@pytest.mark.usefixtures("small")
def test_the_oldest_lines_go(log: tuple[Path, TextIO], request: pytest.FixtureRequest) -> None:
    path, file = log
    handler = BoundedLog(file)
    lines = [f"line {number:06}" for number in range(20 * LOG_LOOK_LINES)]
    for line in lines:
        handler.handle(logging.LogRecord("one", logging.INFO, "", 0, line, (), None))
    found = path.read_text().splitlines()
    if "written" in request.node.name:
        assert found == lines
        return
    assert path.stat().st_size <= MOST + LOG_LOOK_LINES * len("line 000000\n")
    assert found[0].startswith("(older lines of this log were taken away")
    assert found[1:] == lines[1 - len(found) :]
    assert len(found) * len("line 000000\n") > KEPT / 2


@pytest.mark.usefixtures("small")
def test_what_is_no_file_is_left_alone() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file, os.fdopen(reading) as read:
        handler = BoundedLog(file)
        for number in range(2 * LOG_LOOK_LINES):
            handler.handle(logging.LogRecord("one", logging.INFO, "", 0, f"{number}", (), None))
        file.close()
        assert len(read.read().splitlines()) == 2 * LOG_LOOK_LINES
