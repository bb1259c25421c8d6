"""Commands that run on a host to their end."""

import subprocess
from collections.abc import Mapping
from typing import Final

from tests.netns.named import clean_environment
from tests.netns.remote import ROOT, Machine

RUN_SECONDS: Final = 300


def run(machine: Machine, *command: str, variables: Mapping[str, str] | None = None) -> str:
    """What a command writes to stdout. It has to succeed."""
    done = subprocess.run(
        machine.command(*command),
        cwd=ROOT,
        env=clean_environment() | dict(variables or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr[-8_000:]}"
    return done.stdout
