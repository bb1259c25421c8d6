"""A generation that a command begins: how long leases of the lost state may last, and what to do next."""

from leasehold.cli.output import note
from leasehold.cli.statement import read_duration_ns
from leasehold.coordinator.generation import BegunGeneration
from leasehold.errors import BadSettings
from leasehold.limits.lease import LEASE_DURATION_MAX_NS
from leasehold.limits.units import SECOND_NS


def tell_next(begun: BegunGeneration) -> None:
    """Says what to do after a new generation has begun."""
    note(
        f"what to do next: start the coordinator, then the nodes; for up to {begun.longest_lease_ns / SECOND_NS:g} s it"
        " waits for leases of the lost state (--longest-lease); a node with later changes ends with BEYOND_RECOVERY and"
        " says what to type; reset a node that the backup does not know"
    )


def read_longest_ns(text: str | None) -> int:
    """A value of `--longest-lease`; the longest lease there can be without one. Raises `BadSettings`."""
    if text is None:
        return LEASE_DURATION_MAX_NS
    longest_ns = read_duration_ns("--longest-lease", text)
    if longest_ns > LEASE_DURATION_MAX_NS:
        raise BadSettings(
            f"--longest-lease: no lease is longer than {LEASE_DURATION_MAX_NS // SECOND_NS} s", hint="leave it out"
        )
    return longest_ns
