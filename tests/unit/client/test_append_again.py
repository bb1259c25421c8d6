"""An append whose commit finds too few holders: a replica has died in between, and the others may be enough."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from leasehold.client import append as module
from leasehold.client.table import Table
from leasehold.core.words.records import TransactionState
from leasehold.errors import Refused
from leasehold.limits.clients import APPEND_ATTEMPTS

ROWS = pa.table({"a": [1, 2, 3]})


class Stub:
    """Refuses the first commits with `code`."""

    def __init__(self, refusals: int, code: str = "TOO_FEW_HOLDERS") -> None:
        self.refusals = refusals
        self.code = code
        self.staged: list[int] = []
        self.transactions: set[str] = set()

    def within(self, _timeout: float | None) -> "Stub":
        return self

    def facts(self, name: str) -> Any:
        return SimpleNamespace(cluster_id="c", table=1, name=name, fields=())

    def new_transaction(self) -> str:
        return "t"

    def open_transaction(self, _facts: object, transaction: str, *_: object, **__: object) -> Any:
        return SimpleNamespace(state=TransactionState.OPEN, transaction=transaction, revision=7)

    def stage(self, _facts: object, _transaction: str, batches: Any, *_: object) -> tuple[str, ...]:
        self.staged.append(sum(one.num_rows for one in batches))
        return (f"s{len(self.staged)}",)

    def commit(self, _cluster: str, transaction: str, segments: tuple[str, ...], **_: object) -> Any:
        self.transactions.add(transaction)
        if len(self.staged) <= self.refusals:
            raise Refused("too few", code=self.code)
        assert segments == (f"s{len(self.staged)}",)
        return SimpleNamespace(rows=3, segments_short=0, revision=8)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(module, "sleep_ns", found.append)
    return found


def table(stub: Any) -> Table:
    return Table(stub, stub.facts("d.t"))


def test_the_rows_are_written_again_in_the_same_transaction(pauses: list[int]) -> None:
    stub = Stub(2)
    assert table(stub).append(ROWS) == 3
    assert stub.staged == [3, 3, 3]
    assert stub.transactions == {"t"}
    assert pauses == [250_000_000, 500_000_000]


def test_so_often_at_most(pauses: list[int]) -> None:
    stub = Stub(100)
    with pytest.raises(Refused):
        table(stub).append(ROWS)
    assert len(stub.staged) == APPEND_ATTEMPTS
    assert sum(pauses) == 7_750_000_000


def test_another_refusal_is_final(pauses: list[int]) -> None:
    stub = Stub(1, "SCHEMA_CHANGED")
    with pytest.raises(Refused):
        table(stub).append(ROWS)
    assert (len(stub.staged), pauses) == (1, [])


def test_rows_that_can_be_read_only_once_are_written_once(pauses: list[int]) -> None:
    stub = Stub(1)
    with pytest.raises(Refused):
        table(stub).append(ROWS.to_reader())
    assert (len(stub.staged), pauses) == (1, [])
