"""DELETEs that concern no segment any more: when their records may go, and what is looked at to know it."""

from leasehold.core.ddl import finish
from leasehold.core.replicas.rewrite import checks, spent
from leasehold.limits.upkeep import DELETE_CHECKS_MAX
from tests.unit.core.catalog_words import drop_column
from tests.unit.core.data.write_words import TABLE, ground, refused
from tests.unit.core.replicas.rewrite_words import delete, filled, old, put_away, released, run


def test_a_delete_is_spent_once_it_concerns_neither_the_manifest_nor_what_was_replaced():
    base = run(filled(ground(), old(1), old(2)), delete(("a", "=", "3")))
    assert spent(base.catalog.tables[TABLE], base.catalog) == ()
    base.commit(put_away(base, old(1), old(2)))
    assert spent(base.catalog.tables[TABLE], base.catalog) == ()
    assert released(base, old(1)) == ()
    assert released(base, old(2)) == (1,)
    assert TABLE not in base.catalog.deletes


def test_a_delete_that_may_be_rolled_back_is_not_spent():
    base = ground()
    procedure = base.begin(delete(("a", "=", "3")))
    assert spent(base.catalog.tables[TABLE], base.catalog) == ()
    base.commit(finish(procedure, base.catalog))
    assert TABLE not in base.catalog.deletes


def test_of_a_table_with_many_segments_nothing_is_decided_at_once():
    """The point of no return takes no longer for them; `spent` looks at all of them, behind it."""
    segments = DELETE_CHECKS_MAX + 1
    base = filled(ground(), *(old(number) for number in range(segments)))
    run(base, delete(("a", ">", "9")))
    run(base, delete(("a", "=", "5")))
    table = base.catalog.tables[TABLE]
    assert sorted(base.catalog.deletes[TABLE]) == [1, 2]
    assert refused(base.begin, drop_column("a")) == "COLUMN_IN_USE"
    assert checks(table, base.catalog) == 2 * segments
    assert spent(table, base.catalog) == (1,)
