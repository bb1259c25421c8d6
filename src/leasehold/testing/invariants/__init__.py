"""One invariant of the design per file, checked against what a simulated world has told its oracle.

The function `check` of a file reads the oracle and returns what is wrong, or None. What it must remember is in the
oracle's memory (`Oracle.recall`). Worlds and histories that are broken on purpose prove each check. Liveness is not a
check of a state: `liveness.py` is called at the end of a run.
"""

from leasehold.testing.invariants import (
    barrier1,
    ddl1,
    drop1,
    id1,
    id2,
    id3,
    lease1,
    lease2,
    lease3,
    log1,
    log2,
    log3,
    open1,
    read1,
    read2,
    rec1,
    rec2,
    rec3,
    rep1,
    right1,
    scan1,
    serve1,
    view1,
    write1,
    write2,
)
from leasehold.testing.oracle import Invariant, Oracle

INVARIANTS = (
    Invariant("INV-ID-1", id1.check, id1.HEARS),
    Invariant("INV-ID-2", id2.check, id2.HEARS),
    Invariant("INV-ID-3", id3.check, id3.HEARS),
    Invariant("INV-LEASE-1", lease1.check),
    Invariant("INV-LEASE-2", lease2.check, lease2.HEARS),
    Invariant("INV-LEASE-3", lease3.check, lease3.HEARS),
    Invariant("INV-LOG-1", log1.check, log1.HEARS),
    Invariant("INV-LOG-2", log2.check, log2.HEARS),
    Invariant("INV-LOG-3", log3.check, log3.HEARS),
    Invariant("INV-BARRIER-1", barrier1.check),
    Invariant("INV-SERVE-1", serve1.check),
    Invariant("INV-OPEN-1", open1.check, open1.HEARS),
    Invariant("INV-SCAN-1", scan1.check, scan1.HEARS),
    Invariant("INV-DDL-1", ddl1.check),
    Invariant("INV-DROP-1", drop1.check, drop1.HEARS),
    Invariant("INV-WRITE-1", write1.check, write1.HEARS),
    Invariant("INV-WRITE-2", write2.check, write2.HEARS),
    Invariant("INV-REP-1", rep1.check, rep1.HEARS),
    Invariant("INV-REC-1", rec1.check, rec1.HEARS),
    Invariant("INV-REC-2", rec2.check, rec2.HEARS),
    Invariant("INV-REC-3", rec3.check, rec3.HEARS),
    Invariant("INV-VIEW-1", view1.check, view1.HEARS),
    Invariant("INV-READ-1", read1.check, read1.HEARS),
    Invariant("INV-READ-2", read2.check, read2.HEARS),
    Invariant("INV-RIGHT-1", right1.check, right1.HEARS),
)


def named(*ids: str) -> tuple[Invariant, ...]:
    """The invariants with these ids; a `KeyError` for one that is not registered."""
    by_id = {one.id: one for one in INVARIANTS}
    return tuple(by_id[one] for one in ids)


def finish(oracle: Oracle) -> None:
    """Checks what can be checked only at the end of a run. Raises `InvariantViolated`."""
    oracle.check()
    serve1.audit(oracle)
    rec2.compare_all(oracle)
