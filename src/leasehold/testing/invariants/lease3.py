"""INV-LEASE-3: only the current term's leader grants, and a newer leader waits out the older ones.

The current term is the newest that has begun in the store; when it begins, every older leadership has ended by the
clock of who held it, so that nobody is left who could grant. When a leader lets barrier(R) proceed, every lease of an
older term has ended in real time, or its holder, same incarnation, has itself reported R to this leader.
"""

from typing import Final

from leasehold.testing.history import Elected
from leasehold.testing.news import Granted, Proceeded
from leasehold.testing.oracle import Oracle, first_wrong

HEARS: Final = frozenset({Elected, Granted, Proceeded})


def check(oracle: Oracle) -> str | None:
    wrong = first_wrong(_elected(oracle, news) for news in oracle.of(Elected))
    if wrong is not None:
        return wrong
    for news in oracle.of(Granted):
        if news.grant.term != oracle.newest_term:
            return f"{news.leader.name} granted in term {news.grant.term}, the term is {oracle.newest_term}"
    return first_wrong(_proceeded(oracle, news) for news in oracle.of(Proceeded))


def _elected(oracle: Oracle, news: Elected) -> str | None:
    began_ns, _ = oracle.elections[news.term]
    for leader in oracle.leaders.values():
        if leader.term < news.term and leader.leads_until_ns is not None:
            over_ns = leader.clock.real_ns(leader.leads_until_ns)
            if over_ns > began_ns:
                return (
                    f"term {news.term} began {over_ns - began_ns} ns before {leader.name} stopped to lead {leader.term}"
                )
    return None


def _proceeded(oracle: Oracle, news: Proceeded) -> str | None:
    term, revision = news.receipt.term, news.receipt.revision
    if term != oracle.newest_term:
        return f"{news.leader.name} proceeded in term {term}, the term is {oracle.newest_term}"
    for process in oracle.leased():
        if process.lease.term >= term:
            continue
        reported = news.leader.reports.get((process.node, process.incarnation))
        if reported is None or reported < revision:
            return (
                f"barrier({revision}) of term {term} proceeded while {process.name} holds a lease of term "
                f"{process.lease.term} and has reported {reported} to {news.leader.name}"
            )
    return None
