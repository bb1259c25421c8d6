"""`leasehold leader transfer`."""

from collections.abc import Mapping
from pathlib import Path

from leasehold.cli.login import connected
from leasehold.cli.output import Output, milliseconds, show_answer
from leasehold.client.coordinators import Coordinators
from leasehold.client.locate import coordinator_names
from leasehold.errors import NotFound
from leasehold.limits.units import SECOND_NS


def transfer(directory: Path, user: str | None, name: str | None, timeout: str | None, output: Output) -> None:
    """Raises what is wrong with the name, and the errors of `Coordinators.transfer_leadership`."""
    with connected(Coordinators, directory, user, timeout=timeout) as cluster:
        names = {address: address for address in cluster.addresses} | coordinator_names(cluster.target)
        new = cluster.transfer_leadership(None if name is None else _address(name, names))
    leader = names[new.address]
    value = {"leader": leader, "address": new.address, "term": new.term, "elapsed_ms": milliseconds(new.elapsed_ns)}
    show_answer(output, value, f"{leader} leads term {new.term} now, after {new.elapsed_ns / SECOND_NS:.2f} s")


def _address(name: str, names: Mapping[str, str]) -> str:
    """The address of the coordinator of that name or address. Raises `NotFound`."""
    for address, known in names.items():
        if name in {address, known}:
            return address
    hint = f"the coordinators are {', '.join(names.values())}"
    raise NotFound(f"no coordinator of this cluster is called {name!r}", hint=hint)
