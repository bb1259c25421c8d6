"""A table with segments, DELETEs on it and rewrites of it, as tests of them write them down."""

from leasehold.core.ddl import finish
from leasehold.core.replicas.rewrite import spent
from leasehold.core.words import keys
from leasehold.core.words.messages import Replaced
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ColumnStatistics
from leasehold.core.words.statements import Condition, DeleteRows, Literal, TableName
from tests.unit.core.catalog_words import hex_128
from tests.unit.core.data.write_words import TABLE, W1, W2, commit_as_told, opened, sealed_by_holders, segment

NAME = TableName("db", "t")
W3 = hex_128(0xA3)


def delete(*conditions, table="t"):
    """`(column, operator, text)` each, a number unless the text is NULL."""
    where = [
        Condition(column=a, operator=b, value=Literal("null" if c == "NULL" else "number", c)) for a, b, c in conditions
    ]
    return DeleteRows(table=TableName("db", table), where=tuple(where))


def bounds(**of):
    """Statistics of the columns a (id 1) and b (id 2); None where nothing is known."""
    return tuple(
        ColumnStatistics(field={"a": 1, "b": 2}[name], nulls=0, minimum=low, maximum=high)
        for name, (low, high) in of.items()
    )


ALL = bounds(a=(1, 9), b=(1, 9))


def filled(base, *segments):
    """With segments in the manifest."""
    opened(base)
    base.commit(commit(base, *segments))
    return base


def commit(base, *segments, transaction=W1, replaces=(), deletes=0):
    told = sealed_by_holders(base, *segments)
    return commit_as_told(base, *told, transaction=transaction, replaces=replaces, deletes=deletes)


def run(base, statement):
    procedure = base.begin(statement)
    base.commit(finish(procedure, base.catalog))
    return base


def old(number, statistics=ALL, **how):
    return segment(number, statistics=statistics, **how)


def new(number, statistics=ALL, **how):
    return segment(number, transaction=W2, statistics=statistics, **how)


def replaced(*segments):
    return tuple(Replaced(bucket=one.bucket, segment=one.id) for one in segments)


def put_away(base, *segments):
    """A rewrite that finds no row left in them."""
    opened(base, W2)
    return commit(base, transaction=W2, replaces=replaced(*segments), deletes=base.catalog.tables[TABLE].deletes)


def released(base, *segments):
    """What housekeeping does once their time is over."""
    base.commit(tuple(Change(keys.replaced(TABLE, one.bucket, one.id), None) for one in segments))
    gone = spent(base.catalog.tables[TABLE], base.catalog)
    if gone:
        base.commit(tuple(Change(keys.delete(TABLE, number), None) for number in gone))
    return gone
