"""INV-LEASE-3: only the current term's leader grants, and a newer leader waits out the older ones.

When a leader lets barrier(R) proceed, every lease of an older term has ended in real time, or its holder, same
incarnation, has itself reported R to this leader.
"""

from leasehold.testing.oracle import Granted, Oracle, Proceeded


def check(oracle: Oracle) -> str | None:
    """Grants against the newest term, verdicts against the leases of older terms."""
    for news in oracle.news:
        if isinstance(news, Granted) and news.grant.term != oracle.newest_term:
            return f"{news.coordinator.name} granted in term {news.grant.term}, the term is {oracle.newest_term}"
        if isinstance(news, Proceeded):
            wrong = _proceeded(oracle, news)
            if wrong is not None:
                return wrong
    return None


def _proceeded(oracle: Oracle, news: Proceeded) -> str | None:
    term, revision = news.receipt.term, news.receipt.revision
    if term != oracle.newest_term:
        return f"{news.coordinator.name} proceeded in term {term}, the term is {oracle.newest_term}"
    for process in oracle.leased():
        if process.lease.term >= term:
            continue
        reported = news.coordinator.reports.get((process.node, process.incarnation))
        if reported is None or reported < revision:
            return (
                f"barrier({revision}) of term {term} proceeded while {process.name} holds a lease of term "
                f"{process.lease.term} and has reported {reported} to {news.coordinator.name}"
            )
    return None
