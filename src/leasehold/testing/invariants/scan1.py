"""INV-SCAN-1: the rows of one query are those of one revision: all of a DELETE or nothing of it, or the query ends.

A scan that came to its end returned every row of the segments of its plan's revision, as their clients wrote them, but
for those that the DELETEs of its cutoff's revision take, and no other row. A DELETE that began after the cutoff has
taken none of them, one that was rolled back before it none either.
"""

from collections import Counter
from typing import Final

from leasehold.testing.history import Committed
from leasehold.testing.invariants.write2 import Deleted, Visible, fields_at
from leasehold.testing.news import Scanned
from leasehold.testing.oracle import Oracle
from leasehold.testing.write_news import Wrote

HEARS: Final = frozenset({Committed, Scanned, Wrote})


def check(oracle: Oracle) -> str | None:
    visible = oracle.recall(Visible).follow(oracle)  # what is wrong with that is for INV-WRITE-2 to say
    for scan in oracle.of(Scanned):
        wrong = None if scan.by_segment else _rows(oracle, visible, scan)
        if wrong is not None:
            cut_off = scan.revision if scan.cutoff is None else scan.cutoff.revision
            return f"a scan of table {scan.table} at revision {scan.revision}, cut off at {cut_off}, {wrong}"
    return None


def _rows(oracle: Oracle, visible: Visible, scan: Scanned) -> str | None:
    planned = oracle.history.at_most(scan.revision)
    at = planned if scan.cutoff is None else oracle.history.at_most(scan.cutoff.revision)
    # The cutoff of a query of several tasks is written down first, and answered at that revision or a later one.
    gone = [
        one for one in visible.gone(scan.table, at) if scan.cutoff is None or one.record.number <= scan.cutoff.deletes
    ]
    fields = fields_at(oracle, scan.table, at)
    rows, due, taken = Counter(scan.rows), Counter[str](), dict[str, Deleted]()
    for name, count, taking in visible.rows(oracle, scan.table, planned, gone, fields):
        if taking is None:
            due[name] += count
        else:
            taken[name] = taking
    for name in sorted(rows):
        taking = taken.get(name)
        if taking is not None and rows[name] > due[name]:
            return f"returned row {name}, which DELETE {taking.record.number} had taken at {taking.began}"
    wrong = next((name for name, count in sorted(due.items()) if rows[name] != count), None)
    if wrong is not None:
        return f"has row {wrong} {rows[wrong]} times for {due[wrong]}"
    left = sorted(name for name in rows if name not in due)
    return f"returned rows that nobody had committed: {left[:3]}" if left else None
