"""Plans of columns: what they write of a table's schema, and what they refuse."""

import msgspec
import pytest

from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.records import Comparison, DeleteRecord, HiddenColumn, HiddenView, UseState, Widening
from leasehold.core.words.statements import AddColumns, ColumnDefinition, Literal
from leasehold.core.words.types import Plain
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.limits.statements import DESCRIPTION_BYTES_MAX
from tests.unit.core.catalog_words import (
    add,
    columns,
    create_database,
    create_table,
    drop_column,
    move,
    rename,
    set_default,
    widen,
)
from tests.unit.core.ddl.test_plans_objects import nothing_to_do, refused, segment, with_view
from tests.unit.core.ddl_words import BOTH, T, began, field, ground, run, table, view

A, B = field(1, "a"), field(2, "b")


def begun_to(statement, base=None, **fields):
    """That the statement's first transaction writes the table so, as the next version of its schema."""
    changes = began(base or ground(*BOTH), statement)
    return changes == ({keys.table(2): table(schema_version=2, **fields)}, 0)


def defined(name, type_name="INT", **how):
    return AddColumns(table=T, columns=(ColumnDefinition(name=name, type=Plain(type_name), **how),))


# ---------------------------------------------------------------- ADD COLUMN


def test_rows_that_are_there_have_the_default_of_a_new_column():
    statement = defined("c", "STRING", default=Literal("string", "new"), comment="third")
    added = field(3, "c", type="STRING", initial="new", default="new", comment="third")
    assert begun_to(statement, fields=(A, B, added), next_field=4)


def test_a_column_that_may_not_be_null_needs_a_default():
    added = field(3, "c", nullable=False, initial="5", default="5")
    assert begun_to(defined("c", nullable=False, default=Literal("number", "5")), fields=(A, B, added), next_field=4)
    base = ground(*BOTH)
    refused(base, defined("c", nullable=False), Refused, "NEEDS_DEFAULT")
    refused(base, defined("c", nullable=False, default=Literal("null", "")), Refused, "NEEDS_DEFAULT")
    refused(base, defined("c", default=Literal("number", "1.5")), Refused, "BAD_VALUE")


def test_add_columns_if_not_exists_adds_what_is_missing():
    base = ground(*BOTH)
    assert nothing_to_do(base, add("A", "b", if_not_exists=True))
    assert begun_to(add("A", "c", "C", if_not_exists=True), fields=(A, B, field(3, "c")), next_field=4)
    refused(base, add("c", "C"), AlreadyExists, "ALREADY_EXISTS")
    refused(base, add("c", table="none", if_not_exists=True), NotFound, "NOT_FOUND")


# ---------------------------------------------------------------- RENAME and ALTER COLUMN


def test_a_column_that_a_view_reads_keeps_its_name():
    base = with_view(ground(*BOTH), (2, (1,)))
    assert "db.v50" in refused(base, rename("a", "c"), Refused, "VIEW_NEEDS_IT").text
    assert nothing_to_do(base, rename("A", "a"))
    run(base, rename("b", "c"))


@pytest.mark.parametrize(
    ("column", "after", "order"),
    [("c", None, "cabd"), ("a", "b", "bacd"), ("A", "D", "bcda"), ("d", "a", "adbc"), ("b", "c", "acbd")],
)
def test_move_column(column, after, order):
    base = ground(create_database(), create_table("t", *"abcd"))
    run(base, move(column, after))
    after_it = base.catalog.table(T)
    assert "".join(one.name for one in after_it.fields) == order
    assert {one.name: one.id for one in after_it.fields} == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert (after_it.schema_version, after_it.next_field) == (2, 5)


def test_move_column_refused_or_not_needed():
    base = ground(*BOTH)
    assert nothing_to_do(base, move("a"))
    assert nothing_to_do(base, move("b", "A"))
    refused(base, move("a", "A"), Refused, "BAD_PLACE")
    refused(base, move("none"), NotFound, "NOT_FOUND")
    refused(base, move("a", "none"), NotFound, "NOT_FOUND")
    with_view(base, (2, (1, 2)))
    run(base, move("b"))


WIDENINGS = {
    "BOOLEAN": set(),
    "TINYINT": {"SMALLINT", "INT", "BIGINT"},
    "SMALLINT": {"INT", "BIGINT"},
    "INT": {"BIGINT"},
    "BIGINT": set(),
    "FLOAT": {"DOUBLE"},
    "DOUBLE": set(),
    "DECIMAL(5,2)": {"DECIMAL(6,2)", "DECIMAL(38,2)"},
    "DECIMAL(6,2)": {"DECIMAL(38,2)"},
    "DECIMAL(38,2)": set(),
    "DECIMAL(6,3)": set(),
    "STRING": set(),
    "BINARY": set(),
    "DATE": set(),
    "TIMESTAMP": set(),
}


@pytest.mark.parametrize("before", WIDENINGS)
def test_widen_column(before):
    base = ground(*BOTH)
    base.put(keys.table(2), table(fields=(field(1, "a", type=before), B)))
    with_view(base, (2, (1,)))
    for after in WIDENINGS:
        if after == before:
            assert nothing_to_do(base, widen("a", after))
        elif after in WIDENINGS[before]:
            files = (Widening(field=1, before=2, type=before),)
            assert begun_to(widen("A", after), base, fields=(field(1, "a", type=after), B), widened=files)
        else:
            error = refused(base, widen("a", after), Refused, "NARROWING")
            assert all(one in error.hint for one in WIDENINGS[before] if not one.startswith("DECIMAL"))


def test_a_column_that_is_widened_keeps_its_values():
    base = ground(*BOTH)
    run(base, defined("c", default=Literal("number", "5")))
    run(base, widen("c", "BIGINT"))
    assert base.catalog.table(T).fields[2] == field(3, "c", type="BIGINT", initial="5", default="5")


def test_a_table_knows_the_earlier_types_of_the_columns_that_it_has():
    base = ground(*BOTH)
    for statement in (widen("a", "BIGINT"), defined("c", "TINYINT"), widen("c", "SMALLINT"), widen("c", "INT")):
        run(base, statement)
    of_a, of_c = Widening(field=1, before=2, type="INT"), Widening(field=3, before=4, type="TINYINT")
    assert base.catalog.table(T).widened == (of_a, of_c, Widening(field=3, before=5, type="SMALLINT"))
    run(base, drop_column("c"))
    assert base.catalog.table(T).widened == (of_a,)


def test_set_default_concerns_new_rows_only():
    base = ground(*BOTH)
    run(base, defined("c", default=Literal("number", "5")))
    run(base, set_default("c", Literal("number", "6")))
    assert base.catalog.table(T).fields[2] == field(3, "c", initial="5", default="6")
    assert nothing_to_do(base, set_default("C", Literal("number", "006")))
    run(base, set_default("c", None))
    assert base.catalog.table(T).fields[2] == field(3, "c", initial="5")
    assert base.catalog.table(T).schema_version == 4
    assert nothing_to_do(base, set_default("c", None))
    assert nothing_to_do(base, set_default("c", Literal("null", "")))
    refused(base, set_default("c", Literal("string", "6")), Refused, "BAD_VALUE")
    refused(base, set_default("none", None), NotFound, "NOT_FOUND")


# ---------------------------------------------------------------- DROP COLUMN


def test_a_column_that_a_view_reads_goes_with_it():
    base = with_view(ground(*BOTH), (2, (1,)))
    with_view(base, (50, ()), number=51)
    with_view(base, (2, (2,)), number=52)
    refused(base, drop_column("a"), Refused, "VIEW_NEEDS_IT")
    hides = (HiddenColumn(table=2, field=1), HiddenView(view=50), HiddenView(view=51))
    hidden = msgspec.structs.replace(A, state=UseState.PRE_DELETE)
    assert began(base, drop_column("A", cascade=True), *hides)[0] == {
        keys.table(2): table(schema_version=2, fields=(hidden, B)),
        keys.view(50): view(50, (2, (1,)), state=UseState.PRE_DELETE),
        keys.view(51): view(51, (50, ()), state=UseState.PRE_DELETE),
    }
    run(base, drop_column("a", cascade=True))
    assert base.catalog.table(T).fields == (B,)
    assert set(base.catalog.views) == {52}


def test_drop_column_if_exists_refuses_what_else_is_wrong():
    base = ground(create_database(), create_table("t", "a"))
    assert nothing_to_do(base, drop_column("none", if_exists=True))
    refused(base, drop_column("a", if_exists=True), Refused, "LAST_COLUMN")
    refused(base, drop_column("a", table="none", if_exists=True), NotFound, "NOT_FOUND")


def test_a_column_that_says_which_rows_are_deleted_stays():
    base = ground(*BOTH)
    one = segment(1)
    base.put(keys.segment(2, 0, one.id), one)
    where = (Comparison(field=1, operator="=", value="1"),)
    base.put(keys.delete(2, 1), DeleteRecord(table=2, number=1, state=UseState.IN_USE, where=where))
    refused(base, drop_column("a"), Refused, "COLUMN_IN_USE")
    run(base, drop_column("b"))


def test_the_description_of_a_table_has_a_bound():
    base = ground(*BOTH)
    refused(base, defined("c", comment="x" * 2**20), Refused, "TOO_LARGE")
    used = len(encode(table(comment="x" * 2**16))) - 2**16
    base.put(keys.table(2), table(comment="x" * (DESCRIPTION_BYTES_MAX - used)))
    refused(base, add("c"), Refused, "TOO_LARGE")
    run(base, drop_column("b"))  # what is too long can always be made shorter
    assert base.catalog.table(T).fields == (A,)


def test_columns_named_in_one_statement_differ_from_each_other():
    base = ground(*BOTH)
    refused(base, AddColumns(table=T, columns=columns("x", "X")), AlreadyExists, "ALREADY_EXISTS")
