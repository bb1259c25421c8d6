"""Views: what may be made, replaced, renamed and dropped, and what a view that reads it forbids."""

import pytest

from leasehold.core import ddl
from leasehold.core.catalog.catalog import check_through
from leasehold.core.catalog.plan import ResolvedView
from leasehold.core.catalog.reads import walked
from leasehold.core.ddl.plans.readers import check_name_free, refuse_needed, views_reading
from leasehold.core.ddl.weight import changes_many
from leasehold.core.words import keys
from leasehold.core.words.records import HiddenView, Need, UseState, ViewColumn
from leasehold.core.words.statements import CreateView, DropView, RenameView, TableName
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.limits.statements import VIEW_DEPTH_MAX
from leasehold.sql.parse import parse
from tests.unit.core.catalog_words import Ground, create_database, create_table, drop_column, drop_table, rename
from tests.unit.core.ddl_words import BOTH, close, ground, run


def name(view):
    return TableName("db", view)


def resolved(base, *reads, columns=("x",), fields=(1,), body="SELECT .."):
    """What a body comes to that reads these tables and views, of tables the first column."""
    needs = []
    for one in reads:
        table = base.catalog.find_table(name(one))
        found = table or base.catalog.view(name(one))
        needs.append(Need(object=found.id, fields=fields if table else ()))
    return ResolvedView(
        body=body,
        columns=tuple(ViewColumn(name=column, type="INT") for column in columns),
        needs=tuple(sorted(needs, key=lambda need: need.object)),
    )


def begin(base, view, *reads, columns=("x",), fields=(1,), body="SELECT ..", **how):
    statement = CreateView(view=name(view), body=body, reads=tuple(map(name, reads)), **how)
    return base.begin(statement, view=resolved(base, *reads, columns=columns, fields=fields, body=body))


def create(base, view, *reads, **how):
    procedure = begin(base, view, *reads, **how)
    if procedure is not None:
        close(base, procedure)
    return procedure


def chain(base, *views):
    """Each view reads the one before it, the first the table t."""
    for below, view in zip(("t", *views), views, strict=False):
        create(base, view, below)


def refused(code, act, *args, **how):
    with pytest.raises(Refused) as caught:
        act(*args, **how)
    assert caught.value.code == code, caught.value.text
    return caught.value


def drop(view, **how):
    return DropView(view=name(view), **how)


# ---------------------------------------------------------------- CREATE VIEW


def test_a_view_is_additive_and_keeps_what_its_body_comes_to():
    base = ground(*BOTH)
    procedure = create(base, "V", "t", columns=("x", "y"), comment="why")
    view = base.catalog.view(name("v"))
    assert procedure.hides == ()
    assert (view.name, view.body, view.comment, view.state) == ("V", "SELECT ..", "why", UseState.IN_USE)
    assert [column.name for column in view.columns] == ["x", "y"]
    assert view.needs == (Need(object=base.catalog.table(name("t")).id, fields=(1,)),)
    assert base.restored() == base.catalog


def test_if_not_exists_and_the_same_again_have_nothing_to_do():
    base = ground(*BOTH)
    create(base, "v", "t")
    assert create(base, "v", "t", columns=("other",), if_not_exists=True) is None
    assert create(base, "v", "t", or_replace=True) is None
    refused("ALREADY_EXISTS", create, base, "V", "t")


def test_a_table_keeps_its_name():
    base = ground(*BOTH)
    for how in ({}, {"or_replace": True}, {"if_not_exists": True}):
        refused("ALREADY_EXISTS", create, base, "T", "t", **how)


def test_a_replaced_view_keeps_its_number():
    base = ground(*BOTH)
    create(base, "v", "t")
    before = base.catalog.view(name("v"))
    create(base, "v", "t", columns=("z",), or_replace=True, body="SELECT z")
    after = base.catalog.view(name("v"))
    assert (after.id, after.body, [column.name for column in after.columns]) == (before.id, "SELECT z", ["z"])


def test_a_replaced_view_keeps_the_columns_that_others_read():
    base = ground(*BOTH)
    chain(base, "v", "w")
    error = refused("VIEW_NEEDS_IT", create, base, "v", "t", columns=("y",), or_replace=True)
    assert "without x" in error.text
    assert "db.w" in error.text
    create(base, "v", "t", columns=("y", "X"), or_replace=True)


def test_no_view_reads_itself():
    base = ground(*BOTH)
    chain(base, "a", "b", "c")
    create(base, "aside", "a")
    assert "itself" in refused("CYCLIC_VIEW", create, base, "a", "a", or_replace=True).text
    error = refused("CYCLIC_VIEW", create, base, "a", "t", "c", or_replace=True)
    assert "db.b, db.c" in error.text
    assert "aside" not in error.text


def test_views_read_each_other_so_deep_and_no_deeper():
    base = ground(*BOTH)
    chain(base, *(f"v{depth}" for depth in range(1, VIEW_DEPTH_MAX + 1)))
    refused("VIEW_TOO_DEEP", create, base, "v17", f"v{VIEW_DEPTH_MAX}")
    create(base, "low", "t")
    # What reads v1 would be too deep, not v1 itself.
    refused("VIEW_TOO_DEEP", create, base, "v1", "low", or_replace=True)
    create(base, f"v{VIEW_DEPTH_MAX}", "low", or_replace=True)


def test_views_name_so_much_below_each_other_and_no_more(monkeypatch):
    monkeypatch.setattr("leasehold.core.catalog.reads.VIEW_NEEDS_MAX", 7)
    base = ground(*BOTH, create_table("u"))
    create(base, "v", "t", "u")
    create(base, "w", "t", "v")  # 2 + 2
    create(base, "three", "w", "v", "t")  # 3 + 2 + 2: each view counts once
    refused("TOO_MANY_VIEWS", create, base, "more", "three")
    create(base, "low", "t")
    create(base, "v", "t", "u", "low", or_replace=True)
    with pytest.raises(Refused) as caught:
        list(walked((base.catalog.view(name("three")),), base.catalog))
    assert caught.value.code == "TOO_MANY_VIEWS", "what reads a replaced view reads too much now"


# ---------------------------------------------------------------- RENAME, DROP


def test_a_view_is_renamed_unless_another_names_it():
    base = ground(*BOTH)
    chain(base, "v", "w")
    refused("VIEW_NEEDS_IT", base.begin, RenameView(view=name("v"), to=name("u")))
    run(base, RenameView(view=name("w"), to=name("W")))
    run(base, RenameView(view=name("w"), to=name("z")))
    assert base.catalog.find_view(name("w")) is None
    assert base.catalog.view(name("z")).name == "z"
    assert base.begin(RenameView(view=name("z"), to=name("z"))) is None
    refused("ALREADY_EXISTS", base.begin, RenameView(view=name("z"), to=name("T")))
    refused("OTHER_DATABASE", base.begin, RenameView(view=name("z"), to=TableName("other", "z")))


def test_what_is_no_view_is_not_found():
    base = ground(*BOTH)
    assert base.begin(drop("none", if_exists=True)) is None
    assert base.begin(RenameView(view=name("none"), to=name("n"), if_exists=True)) is None
    refused("NOT_FOUND", base.begin, drop("none"))
    refused("NOT_FOUND", base.begin, RenameView(view=name("none"), to=name("n")))
    refused("IS_TABLE", base.begin, drop("t", if_exists=True))
    refused("IS_TABLE", base.begin, RenameView(view=name("t"), to=name("n"), if_exists=True))


def test_a_dropped_view_is_hidden_then_gone_and_each_step_may_be_repeated():
    base = ground(*BOTH)
    create(base, "v", "t")
    view = base.catalog.view(name("v"))
    procedure = base.begin(drop("v"))
    assert procedure.hides == (HiddenView(view=view.id),)
    assert base.catalog.find_view(name("v")) is None
    assert base.catalog.views[view.id].state is UseState.PRE_DELETE
    refused("NOT_FOUND", base.begin, drop("v"))
    base.commit(ddl.finish(procedure, base.catalog))
    assert ddl.finish(procedure, base.catalog) == ()
    assert keys.view(view.id) not in base.items
    close(base, procedure)
    assert ddl.finish(procedure, base.catalog) == ()
    create(base, "v", "t")
    assert base.catalog.view(name("v")).id != view.id


def test_a_drop_that_is_rolled_back_leaves_the_view_as_it_was():
    base = ground(*BOTH)
    create(base, "v", "t")
    view = base.catalog.view(name("v"))
    procedure = base.begin(drop("v"))
    base.commit(ddl.roll_back(procedure, base.catalog, elapsed_ns=1))
    assert base.catalog.view(name("v")) == view
    assert ddl.roll_back(procedure, base.catalog, elapsed_ns=1) == ()
    refused("ROLLED_BACK", ddl.finish, procedure, base.catalog)


def test_cascade_takes_all_that_reads_it_along():
    base = ground(*BOTH)
    chain(base, "v", "w", "x")
    create(base, "other", "t")
    refused("VIEW_NEEDS_IT", base.begin, drop("v"))
    run(base, drop("v", cascade=True))
    assert [view.name for view in base.catalog.views.values()] == ["other"]


# ---------------------------------------------------------------- what views forbid


def test_what_a_view_reads_is_neither_dropped_nor_renamed():
    base = ground(create_database(), create_table("t", "a", "b"))
    chain(base, "v", "w")
    refused("VIEW_NEEDS_IT", base.begin, drop_table("t"))
    refused("VIEW_NEEDS_IT", base.begin, drop_column("a"))
    refused("VIEW_NEEDS_IT", base.begin, rename("a", "c"))
    run(base, rename("b", "c"))
    run(base, drop_column("c"))
    run(base, drop_table("t", cascade=True))
    assert len(base.catalog.views) == 0


def test_a_view_that_is_being_dropped_forbids_it_still():
    base = ground(*BOTH)
    create(base, "v", "t")
    procedure = base.begin(drop("v"))
    refused("VIEW_NEEDS_IT", base.begin, drop_table("t"))
    refused("ALREADY_EXISTS", base.begin, create_table("v"))
    base.commit(ddl.roll_back(procedure, base.catalog, elapsed_ns=1))
    assert base.catalog.view(name("v")).needs[0].object in base.catalog.tables


def test_readers_are_found_through_others_and_by_column():
    base = ground(create_database(), create_table("t", "a", "b"), create_table("u"))
    create(base, "counts", "t", fields=())
    create(base, "both", "t", "u", fields=(1,))
    create(base, "above", "both", "counts")
    t, u = base.catalog.table(name("t")).id, base.catalog.table(name("u")).id

    def found(objects):
        return [view.name for view in views_reading(objects, base.catalog)]

    assert found({t: None}) == ["counts", "both", "above"]
    assert found({u: None, t: 2}) == ["both", "above"]
    assert found({t: 1}) == ["both", "above"]
    assert found({t: 2}) == []
    assert found({base.catalog.view(name("counts")).id: None}) == ["above"]
    refuse_needed({t: 2}, "nothing", base.catalog)


def test_a_name_is_free_only_once_its_owner_is_gone():
    base = ground(*BOTH)
    check_name_free(name("v"), base.catalog)
    with pytest.raises(NotFound):
        check_name_free(TableName("none", "v"), base.catalog)
    create(base, "v", "t")
    with pytest.raises(AlreadyExists, match=r"view db\.V exists"):
        check_name_free(name("V"), base.catalog)
    procedure = base.begin(drop("v"))
    with pytest.raises(AlreadyExists, match="is being dropped"):
        check_name_free(name("v"), base.catalog)
    base.commit(ddl.finish(procedure, base.catalog))
    check_name_free(name("v"), base.catalog)


def test_a_table_is_read_through_views_that_are_in_use():
    base = ground(*BOTH)
    create(base, "v", "t")
    view = base.catalog.view(name("v"))
    check_through((view.id,), base.catalog)
    procedure = base.begin(drop("v"))
    refused("VIEW_DROPPED", check_through, (view.id,), base.catalog)
    base.commit(ddl.finish(procedure, base.catalog))
    refused("VIEW_DROPPED", check_through, (view.id,), base.catalog)
    check_through((), Ground().catalog)


# ---------------------------------------------------------------- who waits


@pytest.mark.parametrize(
    ("statement", "waits"),
    [
        ("DROP TABLE db.t", True),
        ("DROP TABLE db.u", False),
        ("ALTER TABLE db.t RENAME TO db.w", True),
        ("ALTER TABLE db.t DROP COLUMN a CASCADE", True),
        ("ALTER TABLE db.t RENAME COLUMN b TO c", True),
        ("ALTER TABLE db.t ADD COLUMN c INT", False),
        ("DROP VIEW db.v CASCADE", True),
        ("ALTER VIEW db.v RENAME TO db.w", True),
        ("DROP VIEW db.outer", False),
        ("DROP VIEW db.nothing", False),
        ("CREATE OR REPLACE VIEW db.v AS SELECT 1 AS x", True),
        ("CREATE VIEW db.v AS SELECT 1 AS x", False),
        ("CREATE OR REPLACE VIEW db.outer AS SELECT 1 AS x", False),
    ],
)
def test_what_views_read_is_taken_away_in_turn(statement, waits):
    base = Ground()
    for one in (create_database(), create_table("t"), create_table("u")):
        base.begin(one)
    chain(base, "v", "outer")
    assert changes_many(parse(statement), base.catalog) is waits
