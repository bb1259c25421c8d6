"""INV-SERVE-1: no batch is released on a view older than a DDL that had returned before that batch's guard ran."""

from leasehold.testing.oracle import Oracle, Passed


def check(oracle: Oracle) -> str | None:
    """Each guard that passed against what had returned when it began, and against its own deadline."""
    for news in oracle.news:
        if not isinstance(news, Passed):
            continue
        name, outcome = news.run.process.name, news.outcome
        if outcome.view.revision < news.run.returned:
            return f"{name} released on view {outcome.view.revision}, revision {news.run.returned} had returned before"
        if outcome.released_ns >= outcome.lease.deadline_ns:
            return f"{name} released {outcome.released_ns - outcome.lease.deadline_ns} ns after its deadline"
    return None
