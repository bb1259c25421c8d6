"""INV-BARRIER-1: after barrier(R) proceeds, no guard passes on a view older than R, then or ever after.

Checked twice: on the guards that did pass, whose instant is that of their clock reading, and on every process
that could pass one now because its lease has not ended in real time.
"""

from leasehold.testing.news import Passed
from leasehold.testing.oracle import Oracle


def check(oracle: Oracle) -> str | None:
    for news in oracle.of(Passed):
        if news.outcome.view.revision < news.proceeded:
            return (
                f"a guard of {news.process.name} passed on view {news.outcome.view.revision}, "
                f"its clock was read after barrier({news.proceeded}) proceeded"
            )
    for process in oracle.leased():
        if process.view.revision < oracle.proceeded:
            return (
                f"{process.name} has a lease and view {process.view.revision} "
                f"after barrier({oracle.proceeded}) proceeded"
            )
    return None
