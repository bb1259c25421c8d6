"""What one client knows: the newest revision that it has heard of, which nodes are away, how long answers take.

All statements, scans and appends of a connection share one such object; so do the tasks of one worker process of Spark
(`client/threads.py`). So a client is one causal history: it never shows anything older than what it has heard of.
"""

from collections.abc import Sequence

from leasehold.core.backoff import Backoff
from leasehold.core.data.hedging import HEDGE_LIMITS, HedgeLimits, Patience
from leasehold.core.data.runtime import Runtime
from leasehold.core.data.scan import Needed
from leasehold.core.words import messages
from leasehold.core.words.messages import Message
from leasehold.ids import Generation, Incarnation, NodeId, Revision
from leasehold.limits.clients import PLACE_REST_MAX_NS, PLACE_REST_MIN_NS

NOTHING = Revision(0)
_NO_REST = Backoff(PLACE_REST_MIN_NS, PLACE_REST_MAX_NS)


class Known:
    """All steps of a client share it."""

    def __init__(self, runtime: Runtime, hedging: HedgeLimits = HEDGE_LIMITS) -> None:
        self.now_ns = runtime.now_ns
        self.reads = Patience(runtime.condition(), hedging)
        """For batches of scans."""
        self.writes = Patience(runtime.condition(), hedging)
        """For segments of appends: they are synced, and so take longer."""
        self._lock = runtime.condition()
        self._generation = Generation(0)
        self._revision = NOTHING
        self._returned = NOTHING
        self._rests: dict[NodeId, tuple[Incarnation, Backoff]] = {}

    @property
    def revision(self) -> Revision:
        return self._revision

    def heard(self, answer: Message) -> None:
        """Notes the revision of a coordinator's answer.

        The marks of batches don't count: nodes show new revisions a little apart, and under steady writes each batch of
        one node would spoil those of the others.
        """
        match answer:
            case messages.TableFacts():
                self._hear(answer.revision, answer.generation)
            case messages.ScanPlan():
                self._hear(answer.facts.revision, answer.facts.generation)
            case (
                messages.Receipt()
                | messages.Rows()
                | messages.ViewFacts()
                | messages.QueryPlan()
                | messages.TransactionFacts()
            ):
                self._hear(answer.revision)
            case _:
                return
        if isinstance(answer, messages.Receipt) and answer.revision is not None:
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
        return self._returned

    def needed(self, asked: Revision) -> Needed:
        """For a batch that was asked for when this client knew of revision `asked`."""
        with self._lock:
            newest, returned = self._revision, self._returned
        return Needed(newest=max(newest, asked), least=max(returned, asked))

    def is_resting(self, node: NodeId, incarnation: Incarnation) -> bool:
        """Whether it is to be asked last. A node that has started again does not rest."""
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
