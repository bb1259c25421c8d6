"""The rows of SHOW and DESCRIBE, of a catalog made by hand."""

import msgspec
import pytest

from leasehold.coordinator import shown
from leasehold.core import keys
from leasehold.core.catalog import Catalog
from leasehold.core.codec import encode
from leasehold.core.messages import Rows
from leasehold.core.plan import put
from leasehold.core.records import (
    DatabaseRecord,
    Field,
    GrantRecord,
    Need,
    PrincipalKind,
    PrincipalRecord,
    Right,
    SegmentRecord,
    TableRecord,
    UseState,
    ViewColumn,
    ViewRecord,
)
from leasehold.core.shelf import SEGMENTS, Shelf
from leasehold.core.statements import (
    Describe,
    DescribeDatabase,
    OnCluster,
    OnDatabase,
    OnTable,
    OnView,
    ShowDatabases,
    ShowGrants,
    ShowPrincipals,
    ShowProperties,
    ShowTables,
    ShowViews,
    TableName,
)
from leasehold.errors import NotFound
from leasehold.ids import segment_transaction
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.limits.statements import ROWS_PAGE_MAX, SHOW_INLINE_ROWS_MAX

DAY_NS = 86_400_000_000_000


def field(number, name, type_="BIGINT", **how):
    shape = {"nullable": True, "state": UseState.IN_USE}
    return Field(id=number, name=name, type=type_, **{**shape, **how})


def table(number, name, *, database=1, fields=None, **how):
    shape = {
        "state": UseState.IN_USE,
        "schema_version": 1,
        "next_field": 9,
        "cluster_by": None,
        "buckets": 1,
        "replication": 2,
        "ttl_ns": None,
        "time_column": None,
        "properties": {},
    }
    fields = fields or (field(1, "a"),)
    record = TableRecord(id=number, database=database, name=name, fields=fields, **{**shape, **how})
    return put(keys.table(number), record)


def view(number, name, body="SELECT 1", *, needs=(), **how):
    record = ViewRecord(
        id=number,
        database=1,
        name=name,
        state=how.pop("state", UseState.IN_USE),
        body=body,
        columns=(ViewColumn(name="x", type="INT"), ViewColumn(name="y", type="")),
        needs=tuple(Need(object=one, fields=()) for one in needs),
        **how,
    )
    return put(keys.view(number), record)


def database(number, name, **how):
    record = DatabaseRecord(id=number, name=name, state=how.pop("state", UseState.IN_USE), **how)
    return put(keys.database(number), record)


def principal(number, name, kind="user", **how):
    shape = {"state": UseState.IN_USE, "password_hash": "$argon2$secret", "roles": ()}
    record = PrincipalRecord(id=number, name=name, kind=PrincipalKind(kind), **{**shape, **how})
    return put(keys.principal(number), record)


def granted(to, on, *rights, leaving=()):
    return put(keys.grant(on, to), GrantRecord(object=on, principal=to, rights=rights, leaving=leaving))


def segment(number, bucket, rows):
    name = f"{number:032x}-{number:032x}"
    record = SegmentRecord(
        id=name,
        table=10,
        bucket=bucket,
        schema_version=1,
        rows=rows,
        size_bytes=1,
        sha256=b"",
        statistics=(),
        holders=(1,),
    )
    assert segment_transaction(name)
    return put(keys.segment(10, bucket, name), record)


HIDDEN = UseState.PRE_DELETE
CATALOG = Catalog(revision=7).changed(
    [
        database(1, "shop", comment="what we sell", properties={"owner": "ann"}),
        database(2, "Old", state=HIDDEN),
        database(3, "empty"),
        table(
            10,
            "Orders",
            fields=(
                field(1, "id", nullable=False, comment="of the order"),
                field(2, "at", "TIMESTAMP"),
                field(3, "gone", state=HIDDEN),
                field(4, "state", "STRING", default="new", initial="old"),
            ),
            buckets=2,
            cluster_by=1,
            time_column=2,
            ttl_ns=DAY_NS,
            comment="all of them",
            properties={"team": "web"},
        ),
        table(11, "going", state=HIDDEN),
        table(12, "lost", database=2),
        segment(1, 0, 5),
        segment(2, 1, 6),
        segment(3, 1, 7),
        view(20, "recent", "SELECT `shop`.`Orders`.`id` FROM `shop`.`Orders`", needs=(10,), comment="of today"),
        view(21, "both", needs=(20, 10)),
        view(22, "hidden", state=HIDDEN),
        principal(1, "ann", roles=(3, 4), leaving=(4,)),
        principal(2, "bob"),
        principal(3, "readers", "role", password_hash=None),
        principal(4, "writers", "role", password_hash=None),
        principal(5, "left", state=HIDDEN),
        granted(1, 0, *Right),
        granted(3, 1, Right.SELECT),
        granted(4, 10, Right.SELECT, Right.INSERT, Right.DROP, leaving=(Right.DROP,)),
        granted(2, 20, Right.SELECT, leaving=(Right.SELECT,)),
        granted(5, 10, Right.SELECT),
    ]
)
ORDERS, RECENT = TableName("shop", "orders"), TableName("shop", "Recent")


def rows(answer):
    assert answer.revision == 7
    assert not answer.more
    assert all(len(row) == len(answer.columns) for row in answer.rows)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_databases_in_use():
    assert shown.databases(ShowDatabases(), CATALOG).rows == (("empty", ""), ("shop", "what we sell"))


def test_a_database_with_its_properties():
    assert shown.database(DescribeDatabase(name="SHOP"), CATALOG).rows == (
        ("name", "shop"),
        ("comment", "what we sell"),
        ("owner", "ann"),
    )
    with pytest.raises(NotFound):
        shown.database(DescribeDatabase(name="old"), CATALOG)


def test_tables_with_their_rows_and_none_that_is_hidden():
    orders = ("shop", "Orders", 2, 2, 18)
    assert shown.tables(ShowTables(), CATALOG).rows == (orders,)
    assert shown.tables(ShowTables(database="Shop"), CATALOG).rows == (orders,)
    assert shown.tables(ShowTables(database="empty"), CATALOG).rows == ()
    with pytest.raises(NotFound):
        shown.tables(ShowTables(database="old"), CATALOG)


def test_views_with_what_they_read():
    assert rows(shown.views(ShowViews(), CATALOG)) == [
        {"database": "shop", "view": "both", "reads": "shop.Orders, shop.recent", "comment": ""},
        {"database": "shop", "view": "recent", "reads": "shop.Orders", "comment": "of today"},
    ]
    assert shown.views(ShowViews(database="empty"), CATALOG).rows == ()


def test_properties_of_a_table_and_of_a_view():
    assert shown.properties(ShowProperties(table=ORDERS), CATALOG).rows == (
        ("comment", "all of them"),
        ("replication", "2"),
        ("team", "web"),
        ("time_column", "at"),
        ("ttl", "1d"),
    )
    assert dict(shown.properties(ShowProperties(table=RECENT), CATALOG).rows)["select"].startswith("SELECT")
    with pytest.raises(NotFound):
        shown.properties(ShowProperties(table=TableName("shop", "going")), CATALOG)


def test_columns_of_a_table_and_of_a_view():
    described = rows(shown.columns(Describe(table=ORDERS), CATALOG))
    assert [one["column"] for one in described] == ["id", "at", "state"]
    assert described[0]["note"] == "clustered into 2 buckets"
    assert described[0]["comment"] == "of the order"
    assert not described[0]["nullable"]
    assert described[1]["note"] == "rows expire after 1d"
    assert [one["default"] for one in described] == [None, None, "'new'"]
    assert shown.columns(Describe(table=RECENT), CATALOG).rows == (("x", "INT"), ("y", ""))


def failed(name):
    return {"bob": 3}.get(name, 0)


def test_users_with_roles_and_failed_logins_and_roles_with_users():
    users = shown.principals(ShowPrincipals(roles=False), CATALOG, failed)
    assert users.rows == (("ann", "readers", 0), ("bob", "", 3))
    roles = shown.principals(ShowPrincipals(roles=True), CATALOG, failed)
    assert roles.rows == (("readers", "ann"), ("writers", ""))
    assert b"argon2" not in encode(users) + encode(roles)


def test_rights_of_all_of_one_and_on_one_object():
    everything = "SELECT, INSERT, ALTER, DROP, CREATE"
    of_ann = ("ann", "user", "CLUSTER", "", everything)
    of_readers = ("readers", "role", "DATABASE", "shop", "SELECT")
    of_writers = ("writers", "role", "TABLE", "shop.Orders", "SELECT, INSERT")

    def show(principal=None, on=None):
        return shown.grants(ShowGrants(principal=principal, on=on), CATALOG).rows

    assert show() == (of_ann, of_readers, of_writers)
    assert show(principal="Ann") == (of_ann, of_readers), "with the rights of a role that is not being taken from her"
    assert show(principal="bob") == ()
    assert show(on=OnCluster()) == (of_ann,)
    assert show(on=OnDatabase(name="shop")) == (of_readers,)
    assert show(on=OnTable(table=ORDERS)) == (of_writers,)
    assert show(on=OnView(view=RECENT)) == ()
    for unknown in ({"principal": "left"}, {"on": OnTable(table=RECENT)}, {"on": OnDatabase(name="nowhere")}):
        with pytest.raises(NotFound):
            show(**unknown)


def test_what_lists_a_large_catalog_takes_long_and_what_looks_at_one_object_does_not():
    many = range(100, 101 + SHOW_INLINE_ROWS_MAX)
    large = CATALOG.changed(table(number, f"t{number}") for number in many)
    large = large.changed(granted(1, number, Right.SELECT) for number in many)
    for question in (ShowTables(), ShowTables(database="shop"), ShowViews(), ShowGrants()):
        assert shown.is_large(question, large)
        assert not shown.is_large(question, CATALOG)
    assert not shown.is_large(Describe(table=ORDERS), large)
    assert not shown.is_large(ShowTables(database="empty"), large)


def test_segments_are_counted_and_none_of_them_read():
    some = dict.fromkeys(map(str, range(SHOW_INLINE_ROWS_MAX // 2 + 1)), b"")
    one, two = ({(10, bucket): some for bucket in range(count)} for count in (1, 2))
    assert not shown.is_large(ShowTables(), msgspec.structs.replace(CATALOG, segments=Shelf.held(SEGMENTS, one)))
    assert shown.is_large(ShowTables(), msgspec.structs.replace(CATALOG, segments=Shelf.held(SEGMENTS, two)))


def test_rights_and_roles_are_counted_one_by_one():
    """Few objects and few users may have many."""
    half = range(1000, 1001 + SHOW_INLINE_ROWS_MAX // 2)
    large = CATALOG.changed(granted(number, target, Right.SELECT) for number in half for target in (1, 10))
    assert shown.is_large(ShowGrants(), large)
    large = CATALOG.changed(principal(number, f"u{number}", roles=(3,)) for number in half)
    for roles in (False, True):
        assert shown.is_large(ShowPrincipals(roles=roles), large)
        assert not shown.is_large(ShowPrincipals(roles=roles), CATALOG)


def test_the_roles_of_each_user_are_looked_at_once(monkeypatch):
    asked = []
    monkeypatch.setattr(shown, "_roles", lambda one, known=shown._roles: asked.append(one.id) or known(one))
    many = range(100, 200)
    both = CATALOG.changed(principal(number, f"r{number}", "role", password_hash=None) for number in many)
    shown.principals(ShowPrincipals(roles=True), both, failed)
    assert sorted(asked) == [1, 2]


# ---------------------------------------------------------------- pages


def answer(*cells):
    return Rows(columns=("name",), rows=tuple((cell,) for cell in cells), revision=7)


@pytest.mark.parametrize("count", [0, 1, ROWS_PAGE_MAX, ROWS_PAGE_MAX + 1, 3 * ROWS_PAGE_MAX])
def test_pages_hold_all_rows_in_order_and_all_but_the_last_say_that_more_follow(count):
    whole = answer(*map(str, range(count)))
    pages = list(shown.pages(whole))
    assert len(pages) == max(1, -(-count // ROWS_PAGE_MAX))
    assert [one.more for one in pages] == [True] * (len(pages) - 1) + [False]
    assert msgspec.structs.replace(pages[0], rows=tuple(row for one in pages for row in one.rows), more=False) == whole


def test_wide_rows_make_small_pages_that_fit_into_a_message():
    pages = list(shown.pages(answer(*["\N{GRINNING FACE}" * 400_000] * 5)))
    assert [len(one.rows) for one in pages] == [2, 2, 1]
    assert all(len(encode(one)) < MESSAGE_BYTES_MAX for one in pages)
    assert [len(one.rows) for one in shown.pages(answer("x" * 3_000_000, "y"))] == [1, 1], "one row is never cut"
