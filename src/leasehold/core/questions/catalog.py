"""Questions that a catalog answers by itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, TypeGuard, TypeVar, assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.settings import settings_rows
from leasehold.core.questions import principals, relations
from leasehold.core.questions.rebalance import rebalance
from leasehold.core.questions.rows import rows_of
from leasehold.core.words import statements
from leasehold.core.words.messages import Rows
from leasehold.ids import BucketNumber, ObjectId
from leasehold.limits.statements import INLINE_EFFORT_MAX

R = TypeVar("R")

CatalogQuestion: TypeAlias = (
    statements.OfRelations
    | statements.ShowCluster
    | statements.ShowRebalance
    | statements.ShowRevoked
    | statements.ShowPrincipals
    | statements.ShowTokens
    | statements.ShowGrants
)


def answer(question: CatalogQuestion, catalog: Catalog, failed_logins: Callable[[str], int]) -> Rows:  # noqa: PLR0911 - one for each question
    """The rows of the answer. `failed_logins` counts wrong passwords by the name of a user."""
    match question:
        case statements.ShowDatabases():
            return relations.databases(question, catalog)
        case statements.ShowTables():
            return relations.tables(question, catalog)
        case statements.ShowViews():
            return relations.views(question, catalog)
        case statements.ShowProperties():
            return relations.properties(question, catalog)
        case statements.ShowBuckets():
            return relations.buckets(question, catalog)
        case statements.Describe():
            return relations.columns(question, catalog)
        case statements.DescribeDatabase():
            return relations.database(question, catalog)
        case statements.ShowPrincipals():
            return principals.principals(question, catalog, failed_logins)
        case statements.ShowTokens():
            return principals.tokens(catalog)
        case statements.ShowGrants():
            return principals.grants(question, catalog)
        case statements.ShowCluster():
            return rows_of(("setting", "value", "range", "meaning"), settings_rows(catalog), catalog)
        case statements.ShowRebalance():
            return rebalance(catalog)
        case statements.ShowRevoked():
            return rows_of(("serial",), ((one,) for one in sorted(catalog.revoked_certificates)), catalog)
        case _:
            assert_never(question)


def tells_alone(statement: statements.AnyStatement) -> TypeGuard[CatalogQuestion]:
    """Whether the catalog alone answers a statement, as it stands in the meta storage: nothing in the answer is known
    to the leader only."""
    match statement:
        case statements.ShowPrincipals(roles=roles):
            return roles  # of users it tells the failed logins too
        case _:
            return isinstance(statement, CatalogQuestion)


def is_large(question: object, catalog: Catalog) -> bool:
    """Whether putting its rows together takes too long for a loop that grants leases: it looks at more than
    INLINE_EFFORT_MAX rows, columns, buckets and segments."""
    return add_up_to_many(_looked_at(question, catalog))


def _looked_at(question: object, catalog: Catalog) -> Iterator[int]:
    match question:
        case statements.ShowRebalance() | statements.ShowRepairs():
            yield len(catalog.buckets)
            yield from map(catalog.segments.count, catalog.segments)
        case statements.ShowTables(database=database):
            yield _relations(database, catalog)
            for table in _inside(database, catalog.tables, catalog):
                yield table.buckets
            yield from map(catalog.segments.count, catalog.segments)
        case statements.ShowViews(database=database):
            yield _relations(database, catalog)
            yield from (len(view.needs) for view in _inside(database, catalog.views, catalog))
        case statements.ShowBuckets(table=name):
            yield from _in_buckets(name, catalog)
        case statements.Describe(table=name):
            yield _columns(name, catalog)
        case statements.ShowDatabases():
            yield len(catalog.databases)
        case statements.ShowGrants():
            yield from (len(granted) for granted in catalog.grants.values())
        case statements.ShowPrincipals():
            yield from (1 + len(one.roles) for one in catalog.principals.values())
        case statements.ShowTokens():
            yield len(catalog.tokens)
        case statements.ShowRevoked():
            yield len(catalog.revoked_certificates)
        case statements.ShowHistory():
            yield len(catalog.statements)
        case statements.ShowProcedures() if len(catalog.dropped):
            yield len(catalog.statements)
        case _:
            pass


def _in_buckets(name: statements.TableName, catalog: Catalog) -> Iterator[int]:
    table = catalog.find_table(name)
    if table is not None:
        yield table.buckets
        for bucket in range(table.buckets):
            yield catalog.segments.count((table.id, BucketNumber(bucket)))


def _columns(name: statements.TableName, catalog: Catalog) -> int:
    table, view = catalog.find_table(name), catalog.find_view(name)
    return len(table.fields if table is not None else view.columns if view is not None else ())


def _relations(database: str | None, catalog: Catalog) -> int:
    if database is None:
        return len(catalog.tables) + len(catalog.views)
    owner = catalog.find_database(database)
    return 0 if owner is None else len(catalog.relation_names.get(owner.id, ()))


def _inside(database: str | None, of_all: Mapping[ObjectId, R], catalog: Catalog) -> Iterator[R]:
    """The tables or the views `of_all` that are in a database; without a database all of them."""
    owner = None if database is None else catalog.find_database(database)
    if owner is not None:
        yield from (of_all[one] for one in catalog.relations(owner.id) if one in of_all)
    elif database is None:
        yield from of_all.values()


def add_up_to_many(sizes: Iterable[int]) -> bool:
    """Looks at no more of them than it takes to know."""
    whole = 0
    for size in sizes:
        whole += size
        if whole > INLINE_EFFORT_MAX:
            return True
    return False
