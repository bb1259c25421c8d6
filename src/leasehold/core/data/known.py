"""What one client knows: the newest revision that it has heard of, which nodes are away, how long answers take.

There is one such object for each connection to a cluster, shared by its statements, scans and appends; the tasks of one
worker process of Spark share one (`client/known.py`). So what one request learned of a node is known at once to all
others, and a client is one causal history: nothing older than what it was told is shown to it afterwards.
"""

from collections.abc import Sequence

from leasehold.core.backoff import Backoff
from leasehold.core.data.hedging import HEDGE_LIMITS, HedgeLimits, Patience
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.scan import Needed
from leasehold.core.words.messages import (
    Message,
    QueryPlan,
    Receipt,
    Rows,
    ScanPlan,
    TableFacts,
    TransactionFacts,
    ViewFacts,
)
from leasehold.ids import Generation, Incarnation, NodeId, Revision
from leasehold.limits.clients import PLACE_REST_MAX_NS, PLACE_REST_MIN_NS

NOTHING = Revision(0)
_NO_REST = Backoff(PLACE_REST_MIN_NS, PLACE_REST_MAX_NS)


class _Waiting:
    """`Patience` that several steps share."""

    def __init__(self, runtime: Runtime, limits: HedgeLimits) -> None:
        self._lock = runtime.condition()
        self._patience = Patience(limits)

    def delay_ns(self, size_bytes: int = 0) -> int:
        """See `Patience`."""
        with self._lock:
            return self._patience.delay_ns(size_bytes)

    @property
    def may_hedge(self) -> bool:
        """See `Patience`."""
        with self._lock:
            return self._patience.may_hedge

    def asked(self, *, also: bool) -> None:
        """See `Patience`."""
        with self._lock:
            self._patience.asked(also=also)

    def answered(self, took_ns: int) -> None:
        """See `Patience`."""
        with self._lock:
            self._patience.answered(took_ns)


class Known:
    """All steps of a client share it."""

    def __init__(self, runtime: Runtime, hedging: HedgeLimits = HEDGE_LIMITS) -> None:
        self.now_ns = runtime.now_ns
        self.reads = _Waiting(runtime, hedging)
        """For batches of scans."""
        self.writes = _Waiting(runtime, hedging)
        """For segments of appends: they are synced, and so take longer."""
        self._lock = runtime.condition()
        self._generation = Generation(0)
        self._revision = NOTHING
        self._returned = NOTHING
        self._rests: dict[NodeId, tuple[Incarnation, Backoff]] = {}

    # ------------------------------------------------------------ revisions

    @property
    def revision(self) -> Revision:
        """The newest that this client has heard of."""
        return self._revision

    def heard(self, answer: Message) -> None:
        """Takes note of the revision that an answer of a coordinator names.

        The marks of batches don't count: nodes show new revisions a little apart, and under steady writes each batch of
        one node would spoil those of the others.
        """
        match answer:
            case TableFacts():
                self._hear(answer.revision, answer.generation)
            case ScanPlan():
                self._hear(answer.facts.revision, answer.facts.generation)
            case Receipt() | Rows() | ViewFacts() | QueryPlan() | TransactionFacts():
                self._hear(answer.revision)
            case _:
                return
        if isinstance(answer, Receipt) and answer.revision is not None:
            with self._lock:
                self._returned = max(self._returned, answer.revision)

    def _hear(self, revision: Revision | None, generation: Generation | None = None) -> None:
        with self._lock:
            if generation is not None and generation > self._generation:
                # Revisions of two generations can't be compared: they count anew.
                if self._generation:
                    self._revision = self._returned = NOTHING
                self._generation = generation
            elif generation is not None and generation < self._generation:
                return
            if revision is not None and revision > self._revision:
                self._revision = revision

    @property
    def returned(self) -> Revision:
        """The newest revision that a statement of this client has returned."""
        return self._returned

    def needed(self, asked: Revision) -> Needed:
        """Of a batch that was asked for when this client knew of revision `asked`."""
        with self._lock:
            newest, returned = self._revision, self._returned
        return Needed(newest=max(newest, asked), least=max(returned, asked))

    # ------------------------------------------------------------ nodes

    def is_resting(self, node: NodeId, incarnation: Incarnation) -> bool:
        """Whether it is to be asked last. A node that has started again since does not rest."""
        met, rest = self._rests.get(node, (incarnation, _NO_REST))
        return met >= incarnation and not rest.is_over(self.now_ns())

    def in_turn(self, nodes: Sequence[tuple[NodeId, Incarnation]]) -> tuple[NodeId, ...]:
        """`nodes` in the order in which to ask them: those that rest come last, and none is left out."""
        return tuple(node for node, _ in sorted(nodes, key=lambda one: self.is_resting(*one)))

    def served(self, node: NodeId) -> None:
        """It does not rest any more."""
        if node in self._rests:
            with self._lock:
                self._rests.pop(node, None)

    def was_away(self, node: NodeId, incarnation: Incarnation) -> None:
        """It rests; twice as long as the last time."""
        now_ns = self.now_ns()
        with self._lock:
            met, rest = self._rests.get(node, (incarnation, _NO_REST))
            if met < incarnation:
                rest = _NO_REST
            if rest.is_over(now_ns):  # else another stream met it in the same state
                self._rests[node] = (incarnation, rest.after_failure(now_ns))
