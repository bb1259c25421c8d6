"""What one run of the simulator comes to."""

import msgspec


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. The same seed gives the same digest, on any machine and with any hash seed."""

    seed: int
    nodes: int
    coordinators: int
    steady: bool
    simulated_ns: int
    steps: int
    statements: int
    batches: int
    scans: int
    writes: int
    undecided: int
    """1 if it could not be decided whether what clients were answered is linearizable (INV-READ-2)."""
    faults: dict[str, int]
    digest: str
    trace: tuple[str, ...]
