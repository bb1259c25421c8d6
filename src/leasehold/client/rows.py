"""Rows of tables as one client reads and writes them: scans that were planned, appends to an open transaction."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pyarrow as pa

from leasehold.client.append import stage
from leasehold.client.coordinators import Coordinators
from leasehold.client.scan import read_plan
from leasehold.client.threads import THREADS
from leasehold.core.words.messages import ScanPlan, StagedSegment, TableFacts, TransactionFacts
from leasehold.ids import Revision, TransactionId
from leasehold.limits.segments import TRANSACTION_RENEW_NS


class RowAccess(Coordinators):
    """A client that reaches the nodes as well as the coordinators."""

    def read(self, plan: ScanPlan) -> pa.RecordBatchReader:
        """The rows of a plan of this client."""
        refresh = self.looking_again(plan.facts)
        return read_plan(plan, refresh=refresh, login=self.token, known=self.known, asking=self.asking)

    def stage(
        self,
        facts: TableFacts,
        transaction: TransactionId,
        batches: Iterable[pa.RecordBatch],
        revision: Revision,
        text_sha256: bytes = b"",
    ) -> tuple[StagedSegment, ...]:
        """Writes rows to the nodes as part of a transaction that was opened at `revision`; see `client/append.py`. The
        transaction stays open however long that takes."""
        return stage(
            facts,
            transaction,
            self._keeping_open(partial(self.open_transaction, facts, transaction, text_sha256), batches),
            revision,
            refresh=self.looking_again(facts),
            login=self.token,
            known=self.known,
            asking=self.asking,
        )

    def _keeping_open(
        self, open_again: Callable[[], TransactionFacts], batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Hands `batches` on, and asks for more time for the transaction now and then: writing may take hours."""
        due_ns = THREADS.now_ns() + TRANSACTION_RENEW_NS
        for batch in batches:
            if THREADS.now_ns() >= due_ns:
                open_again()
                due_ns = THREADS.now_ns() + TRANSACTION_RENEW_NS
            yield batch
