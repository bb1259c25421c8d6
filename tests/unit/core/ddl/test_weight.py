"""Which statements change so many records that the next such one waits for the nodes."""

import pytest

from leasehold.core.ddl.weight import changes_many
from leasehold.core.words import keys
from leasehold.core.words.records import LoginRecord
from leasehold.limits.statements import INLINE_EFFORT_MAX
from leasehold.sql.parse import parse
from tests.unit.core.catalog_words import (
    Ground,
    alter,
    create_database,
    create_table,
    drop_database,
    drop_table,
)
from tests.unit.core.data.write_words import user

MANY = INLINE_EFFORT_MAX + 1


@pytest.fixture(scope="module")
def catalog():
    ground = Ground()
    for one in ("db", "many", "empty"):
        ground.begin(create_database(one))
    ground.begin(create_table("wide", cluster_by="a", buckets=MANY))
    ground.begin(create_table("narrow", cluster_by="a", buckets=INLINE_EFFORT_MAX))
    for number in range(2):
        ground.begin(create_table(f"t{number}", database="many", cluster_by="a", buckets=INLINE_EFFORT_MAX // 2))
    return ground.catalog


@pytest.mark.parametrize(
    ("statement", "many"),
    [
        (create_table("t", cluster_by="a", buckets=MANY), True),
        (create_table("t", cluster_by="a", buckets=INLINE_EFFORT_MAX), False),
        (drop_table("wide"), True),
        (drop_table("narrow"), False),
        (drop_table("nothing"), False),
        (drop_database("db", cascade=True), True),
        (drop_database("many", cascade=True), True),
        (drop_database("empty"), False),
        (drop_database("nothing"), False),
        (alter("wide", ttl_ns=10**18), False),
    ],
)
def test_a_table_has_a_record_for_each_bucket(catalog, statement, many):
    assert changes_many(statement, catalog) is many


@pytest.mark.parametrize(("logins", "many"), [(INLINE_EFFORT_MAX, False), (MANY, True)])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER USER ann PASSWORD 'a long secret'",
        "ALTER USER ann SET CERTIFICATE ON",
        "ALTER USER ann RENAME TO eve",
        "DROP USER ann",
        "DROP USER ben",
    ],
)
def test_a_user_has_a_record_for_each_login(statement, logins, many):
    ground = Ground()
    ground.put(keys.principal(1), user(1, "ann"))
    for number in range(logins):
        token = number.to_bytes(32)
        ground.put(keys.login(token), LoginRecord(token_hash=token, user=1, order=number + 1))
    assert changes_many(parse(statement), ground.catalog) is (many and "ann" in statement)
