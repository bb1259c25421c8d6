"""What the clients of a soak have asked and heard, shared by their threads, and what must be true of it."""

import threading
from collections import Counter

import msgspec
import numpy as np
import pyarrow as pa

from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Outcome
from leasehold.errors import Definite
from leasehold.ids import StatementId
from leasehold.testing.catalog_operations import CatalogAnswer

KEYS_PER_APPEND = 1_000
VIOLATIONS_MAX = 20


class Told(msgspec.Struct, kw_only=True):
    """A statement; `heard` is what its client was answered, None where no answer came."""

    id: StatementId
    text: str
    asked_ns: int
    answered_ns: int = 0
    modelled: bool
    """Whether the model of the catalog knows what it does."""
    timeout: float | None = None
    """In seconds, after which it may end as ROLLED_BACK or COMMITTED_PENDING."""
    heard: Receipt | Definite | None = None

    @property
    def nothing_done(self) -> bool:
        """Whether its receipt may say that there was nothing to do."""
        return isinstance(self.heard, Receipt) and not self.heard.settled

    @property
    def outcomes(self) -> frozenset[Outcome]:
        """What it may come to."""
        late = () if self.timeout is None else (Outcome.ROLLED_BACK, Outcome.COMMITTED_PENDING)
        return frozenset({Outcome.COMMITTED, *late})


class TableLedger:
    """The appends to one table. Number n writes the keys from n x KEYS_PER_APPEND on: a row tells where it is from."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sizes: list[int] = []
        self._committed: set[int] = set()
        self._refused: set[int] = set()

    def begin(self, rows: int) -> int:
        """The number of a new append."""
        assert 0 < rows <= KEYS_PER_APPEND
        with self._lock:
            self._sizes.append(rows)
            return len(self._sizes) - 1

    def keys(self, number: int) -> np.ndarray:
        first = number * KEYS_PER_APPEND
        return np.arange(first, first + self._sizes[number], dtype=np.int64)

    def committed(self, number: int) -> None:
        with self._lock:
            self._committed.add(number)

    def refused(self, number: int) -> None:
        """It is known that it did not happen."""
        with self._lock:
            self._refused.add(number)

    def must_be_seen(self) -> frozenset[int]:
        """What whoever begins to read now has to find."""
        with self._lock:
            return frozenset(self._committed)

    def check(self, read: pa.ChunkedArray, must_be_seen: frozenset[int]) -> str | None:
        """What is wrong with the keys that a scan found: each append is there whole and once, or not at all."""
        keys = np.sort(read.to_numpy())
        with self._lock:
            sizes, refused = list(self._sizes), set(self._refused)
        doubled = keys[1:][keys[1:] == keys[:-1]]
        if len(doubled):
            return f"{len(doubled)} rows were read twice, the first is {doubled[0]}"
        numbers, counts = np.unique(keys // KEYS_PER_APPEND, return_counts=True)
        seen = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        parts = {number: count for number, count in seen.items() if number >= len(sizes) or count != sizes[number]}
        if parts:
            return f"appends were read in part: {sorted(parts.items())[:5]}"
        if missing := must_be_seen - seen.keys():
            return f"{len(missing)} committed appends were not read: {sorted(missing)[:5]}"
        if wrong := refused & seen.keys():
            return f"{len(wrong)} appends that had been refused were read: {sorted(wrong)[:5]}"
        return None


class Ledger:
    """Everything of one cluster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.statements: list[Told] = []
        self.catalog_answers: list[CatalogAnswer] = []
        """Of single coordinators, also of those that do not lead."""
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []

    def asked(self, told: Told) -> None:
        with self._lock:
            self.statements.append(told)
            self.counts["statements"] += 1

    def shown(self, answer: CatalogAnswer) -> None:
        with self._lock:
            self.catalog_answers.append(answer)
            self.counts["catalog answers"] += 1

    def count(self, what: str, by: int = 1) -> None:
        with self._lock:
            self.counts[what] += by

    def violated(self, what: str | None) -> None:
        """Notes a violation; None is none."""
        with self._lock:
            if what is not None and len(self.violations) < VIOLATIONS_MAX:
                self.violations.append(what)
