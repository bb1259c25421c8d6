"""What floods cost: the attacks of `tests/attacks/floods`, by strangers at the door of a cluster with TLS."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.attacks.figures import FILE_VARIABLE, GROWN_BYTES_MAX, AttackFigures, recorded

from bench.figures import Figure, Table

ROOT = Path(__file__).parents[1]
FLOODS = "tests/attacks/floods"
STRANGER = "stranger"
ALL = ("-m", "long or not long", "-k", STRANGER)
SMALLEST = ("-k", f"{STRANGER} and 1-node and small_compressed")
COORDINATOR = "coordinator"
"""The name of its process; the others are nodes."""
MIB = 1024 * 1024


def run(smallest: bool) -> list[Table]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures"
        words = [sys.executable, "-m", "pytest", FLOODS, *(SMALLEST if smallest else ALL)]
        ended = subprocess.run(
            words, cwd=ROOT, env={**os.environ, FILE_VARIABLE: str(file)}, capture_output=True, text=True, check=False
        )
        found = recorded(file) if file.exists() else []
    if not found:
        raise RuntimeError(f"no attack ran: {ended.stdout}{ended.stderr}")
    return tables(found)


def tables(found: list[AttackFigures]) -> list[Table]:
    title = (
        "Under attack: one coordinator and three nodes with TLS, floods by strangers and by users without other rights"
    )
    return [Table(title=title, figures=[figure(one) for one in found])]


def figure(one: AttackFigures) -> Figure:
    node_bytes = max(size for name, size in one.grown_bytes.items() if name != COORDINATOR)
    most = max(one.grown_bytes.values())
    fenced = f"{one.fenced} times fenced" if one.fenced else "no node fenced"
    return Figure(
        what=named(one.attack),
        value=f"the coordinator grew by {one.grown_bytes[COORDINATOR] // MIB} MiB, a node by {node_bytes // MIB} MiB",
        peer=f"{fenced}, at most {one.unrenewed_ns / 1e6:.0f} ms without a renewal; an honest request took at most "
        f"{one.slowest_ns / 1e6:.0f} ms, {one.calm_ns / 1e6:.0f} ms before; ran {one.share:.0%} of the time",
        ratio=f"{most / GROWN_BYTES_MAX:.2f}",
        aim=f"{GROWN_BYTES_MAX // MIB} MiB, no node fenced, {one.slowest_ns_max / 1e6:.0f} ms",
        holds=most < GROWN_BYTES_MAX and not one.fenced and one.slowest_ns <= one.slowest_ns_max,
    )


def named(test: str) -> str:
    """`test_half_open_calls[stranger-10]` as `half open calls (10 times)`."""
    name, _, rest = test.removeprefix("test_").partition("[")
    given = rest.removesuffix("]").split("-", 2)[1:]
    size = "" if given[:1] == ["1"] else f", {given[0]} times as large" if given else ""
    more = f": {given[1].rpartition('/')[2]}" if len(given) > 1 else ""
    return name.replace("_", " ") + more + size
