"""A catalog made by hand, for questions about it."""

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.words import keys
from leasehold.core.words.records import (
    BucketRecord,
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
from leasehold.core.words.statements import TableName
from leasehold.ids import segment_transaction

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


def bucket(number, replicas, in_sync):
    record = BucketRecord(table=10, bucket=number, replicas=replicas, in_sync=in_sync)
    return put(keys.bucket(10, number), record)


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
        bucket(0, (1, 2), (1,)),
        bucket(1, (2, 1), (1,)),
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
