"""Large transactions as the product writes them: planned on a catalog in memory with the code that coordinators run.

Each function yields rounds without an end. A round is the changes of some transactions: the last one is the large one,
and those before it write what it needs. Numbers of changes are about those that the function is given.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

from tests.unit.core.catalog_words import Ground, create_database, create_table, drop_database, hex_128
from tests.unit.core.data.write_words import commit, opened, segment

from leasehold.core.ddl import finish
from leasehold.core.words.operations import Change
from leasehold.limits.statements import BUCKETS_MAX

Round: TypeAlias = list[tuple[Change, ...]]
Rounds: TypeAlias = Callable[[int], Iterator[Round]]

VALUE = b"x" * 100
WRITTEN_BUCKETS = 64
"""Of the table that segments are committed to."""


def created_buckets(buckets: int) -> Iterator[Round]:
    """CREATE TABLE."""
    base = Ground()
    base.begin(create_database())
    for number in count():
        base.begin(create_table(f"t{number}", buckets=buckets))
        yield _taken(base)


def committed_segments(segments: int) -> Iterator[Round]:
    """A write transaction."""
    base = Ground()
    for statement in (create_database(), create_table(buckets=WRITTEN_BUCKETS, replication=3)):
        base.begin(statement)
    for number in count(1):
        transaction = hex_128(number)
        opened(base, transaction)
        staged = (segment(one, transaction=transaction, bucket=one % WRITTEN_BUCKETS) for one in range(segments))
        base.commit(commit(base, *staged, transaction=transaction))
        yield _taken(base)


def dropped_records(records: int) -> Iterator[Round]:
    """The point of no return of DROP DATABASE .. CASCADE."""
    base = Ground()
    for number in count():
        name = f"d{number}"
        base.begin(create_database(name))
        for table, first in enumerate(range(0, records, BUCKETS_MAX)):
            base.begin(create_table(f"t{table}", database=name, buckets=min(BUCKETS_MAX, records - first)))
        procedure = base.begin(drop_database(name, cascade=True))
        assert procedure is not None, "there is something to drop"
        base.commit(finish(procedure, base.catalog))
        yield _taken(base)


def plain_changes(changes: int) -> Iterator[Round]:
    """As many as a transaction may have, of no statement."""
    for number in count():
        yield [tuple(Change(b"large/%06d" % one, VALUE + b"%d" % number) for one in range(changes))]


def _taken(base: Ground) -> Round:
    """What was written since the last call."""
    batches, base.batches = base.batches, []
    return [one.changes for one in batches]
