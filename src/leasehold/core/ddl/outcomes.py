"""Which outcomes of statements a leader may forget (R12).

A client without an answer asks again by the statement's id, and a statement that is not known is run. So its outcome is
kept for longer than a client asks. Besides, STATEMENTS_KEPT older ones are kept for people and for `leasehold verify`.
What an older leader ended counts as ended at the election.
"""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words.records import Outcome
from leasehold.ids import StatementId
from leasehold.limits.statements import PURGE_BATCH, STATEMENT_REMEMBERED_NS, STATEMENTS_KEPT


class Ended:
    """The statements that have ended, the one that ended first in front. Of one leader."""

    def __init__(self, catalog: Catalog, now_ns: int) -> None:
        ended = (one for one in catalog.statements.values() if one.outcome is not Outcome.RUNNING)
        self._at_ns = OrderedDict((one.id, now_ns) for one in sorted(ended, key=lambda one: one.order))
        self._named: set[StatementId] = set()
        """What transactions forget, until the durable catalog shows it."""

    def note(self, statement: StatementId, now_ns: int) -> None:
        self._at_ns[statement] = now_ns
        self._at_ns.move_to_end(statement)

    def forgettable(self, catalog: Catalog, now_ns: int) -> tuple[StatementId, ...]:
        """What the next transaction may forget: nothing, or PURGE_BATCH of the oldest, but for drops whose files are
        still being deleted."""
        if len(catalog.statements) <= STATEMENTS_KEPT + PURGE_BATCH + len(catalog.dropped):
            return ()
        oldest = tuple(islice(self._old(catalog, now_ns), PURGE_BATCH))
        self._named.update(oldest)
        return oldest

    def _old(self, catalog: Catalog, now_ns: int) -> Iterator[StatementId]:
        for statement, ended_ns in self._at_ns.items():
            if now_ns < ended_ns + STATEMENT_REMEMBERED_NS:
                return
            record = catalog.statements.get(statement)
            if record is None or record.outcome is Outcome.RUNNING:  # forgotten, or answered and not closed yet
                continue
            if not any(table in catalog.dropped for table in record.dropped):
                yield statement

    def tidy(self, catalog: Catalog) -> None:
        """Lets go of what the durable catalog has forgotten."""
        for statement in self._named:
            if statement not in catalog.statements:
                self._at_ns.pop(statement, None)
        self._named.clear()
