"""What an attack cost: printed at its end, and kept for `python -m bench attacks`."""

import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from leasehold.limits.units import MILLISECOND_NS, SECOND_NS

FILE_VARIABLE: Final = "LEASEHOLD_ATTACK_FIGURES"
"""The environment variable with the file to which each attack adds a line of JSON."""
GROWN_BYTES_MAX: Final = 256 * 1024 * 1024
SERVED_NS_MAX: Final = 2 * SECOND_NS
BUSY_FACTOR: Final = 10


class AttackFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Times are those of the honest client. `share` is how much of the time in which the client and the cluster were
    ready to run they did run."""

    attack: str
    grown_bytes: dict[str, int]
    """By how much each process grew at most."""
    by_all_bytes: dict[str, int]
    """The same since before the first attack on this cluster."""
    fenced: int
    """How often a node lost its lease."""
    unrenewed_ns: int
    """The longest time that a node's lease was seen without a renewal; 0 if no node answered."""
    rounds: int
    calm_ns: int
    """The slowest request beside no attack."""
    slowest_ns: int
    share: float
    more_ns: int = 0
    """How much longer a request may take than beside other attacks."""

    @property
    def slowest_ns_max(self) -> int:
        """How long a request may take; longer on a busy machine."""
        return max(int((SERVED_NS_MAX + self.more_ns) / self.share), BUSY_FACTOR * self.calm_ns)

    def record(self) -> None:
        """Prints the figures, and adds them to the file of FILE_VARIABLE."""
        grown, by_all = (
            {name: size >> 20 for name, size in sizes.items()} for sizes in (self.grown_bytes, self.by_all_bytes)
        )
        sys.stdout.write(
            f"{self.attack}: grown by MiB: {grown}, since the first attack by {by_all}; "
            f"fenced {self.fenced} times, at most {self.unrenewed_ns // MILLISECOND_NS} ms without a renewal; "
            f"the slowest of {self.rounds} rounds: {self.slowest_ns // MILLISECOND_NS} ms, "
            f"{self.calm_ns // MILLISECOND_NS} ms without the attack, ran {self.share:.0%} of the time\n"
        )
        if file := os.environ.get(FILE_VARIABLE):
            with Path(file).open("ab") as opened:
                opened.write(msgspec.json.encode(self) + b"\n")


def attack_under_way() -> str:
    """The name of the test that runs."""
    return os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].rpartition(" ")[0]


def recorded(file: Path) -> list[AttackFigures]:
    return [msgspec.json.decode(line, type=AttackFigures) for line in file.read_bytes().splitlines()]
