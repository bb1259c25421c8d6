"""A generation that a command begins: where and when, how long leases of the lost state may last, what to do next."""

import os
from collections.abc import Mapping
from pathlib import Path

from leasehold.cli.config import CoordinatorConfig, coordinator_config
from leasehold.cli.output import note
from leasehold.cli.statement import read_duration_ns
from leasehold.coordinator.generation import BegunGeneration
from leasehold.errors import BadSettings
from leasehold.limits.lease import LEASE_DURATION_MAX_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.clock import BoottimeClock


def named_place(given: Mapping[str, object], what: str) -> CoordinatorConfig:
    """The configuration of the coordinators that go on: with `dir`, or with `meta`. Raises `BadSettings` where neither
    says `what`, or a variable names a store beside a directory: a person who types --dir means that."""
    if given["dir"] is None and given["meta"] is None:
        raise BadSettings(
            f"it is not said {what}",
            hint="give --dir for a coordinator with a file of its own, or --meta for a store that several share",
        )
    typed_dir = given["dir"] is not None and str(given["dir"]) != os.environ.get("LEASEHOLD_COORDINATOR_DIR")
    if typed_dir and given["meta"] is not None and given["meta"] == os.environ.get("LEASEHOLD_META"):
        raise BadSettings(
            "--dir names a directory, and LEASEHOLD_META a store",
            hint="unset LEASEHOLD_META for the directory, or leave out --dir for the store",
        )
    return coordinator_config(None, {**given, "dir": given["dir"] or Path()})


def wall_s() -> int:
    """Seconds since 1970, by which generations are numbered."""
    return BoottimeClock().wall_us() // 1_000_000


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
