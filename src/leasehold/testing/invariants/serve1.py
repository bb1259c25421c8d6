"""INV-SERVE-1: no batch is released on a view older than a DDL that had returned before that batch's guard ran.

A client is handed nothing that was released before a statement that has returned to that client.

Checked on the guards that did pass, and on every process that could pass one now because its lease has not ended.
At the end of a run the rule of `leasehold verify` is held against all that was served, too (`audit`).
"""

from leasehold.testing.news import HandedOut, Passed
from leasehold.testing.oracle import Oracle

ID = "INV-SERVE-1"


def check(oracle: Oracle) -> str | None:
    for news in oracle.of(Passed):
        name, outcome = news.process.name, news.outcome
        if outcome.view.revision < news.returned:
            return f"{name} released on view {outcome.view.revision}, revision {news.returned} had returned before"
        if outcome.released_ns >= outcome.lease.deadline_ns:
            return f"{name} released {outcome.released_ns - outcome.lease.deadline_ns} ns after its deadline"
    for handed in oracle.of(HandedOut):
        if handed.released < handed.returned:
            return f"a client was handed a batch of {handed.released}, {handed.returned} had returned to it before"
    for process in oracle.leased():
        if process.view.revision < oracle.returned:
            return f"{process.name} can release on view {process.view.revision}, {oracle.returned} has returned"
    return None


def audit(oracle: Oracle) -> None:
    """Raises `InvariantViolated` for a serve that the rule of `leasehold verify` calls stale."""
    if any(one.id == ID for one in oracle.invariants):
        for stale in oracle.audit():
            raise oracle.violation(ID, f"audit: {stale}")
