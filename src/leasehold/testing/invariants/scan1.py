"""INV-SCAN-1: the rows of one query are those of one revision: all of a DELETE or nothing of it, or the query ends.

A scan that came to its end returned every row that the commits up to its plan's revision made visible, but for those
that the DELETEs of its cutoff's revision take, and no other row. A DELETE that began after the cutoff has taken none of
them, one that was rolled back before it none either.
"""

from collections import Counter
from typing import Final

from leasehold.ids import Revision
from leasehold.testing.history import Committed
from leasehold.testing.invariants.write2 import Visible, fields_at
from leasehold.testing.news import Scanned, Wrote
from leasehold.testing.oracle import Oracle

HEARS: Final = frozenset({Committed, Scanned, Wrote})


def check(oracle: Oracle) -> str | None:
    """Each scan that came to its end, row by row."""
    visible = oracle.recall(Visible).follow(oracle)  # what is wrong with that is for INV-WRITE-2 to say
    for scan in oracle.of(Scanned):
        wrong = None if scan.by_segment else _rows(oracle, visible, scan)
        if wrong is not None:
            return f"a scan of table {scan.table} at revision {scan.revision}, cut off at {scan.cutoff}, {wrong}"
    return None


def _rows(oracle: Oracle, visible: Visible, scan: Scanned) -> str | None:
    planned, cutoff = (oracle.history.at_most(one) for one in (scan.revision, scan.cutoff))
    gone, fields = visible.gone(scan.table, cutoff), fields_at(oracle, scan.table, cutoff)
    left = Counter(scan.rows)
    for transaction, wrote in visible.meant.items():
        if wrote.table != scan.table or visible.committed.get(transaction, Revision(planned + 1)) > planned:
            continue
        for name, count in wrote.rows.items():
            taking = next((one for one in gone if visible.takes(one, name, transaction, fields)), None)
            found = left.pop(name, 0)
            if taking is not None and found:
                return f"returned row {name}, which DELETE {taking.record.number} had taken at {taking.began}"
            if taking is None and found != count:
                return f"has row {name} of write {transaction} {found} times for {count}"
    return f"returned rows that nobody had committed: {sorted(left)[:3]}" if left else None
