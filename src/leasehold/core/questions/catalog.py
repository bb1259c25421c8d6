"""Questions that a catalog answers by itself."""

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeGuard, assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.settings import settings_rows
from leasehold.core.questions import principals, relations
from leasehold.core.questions.rebalance import rebalance
from leasehold.core.questions.rows import rows_of
from leasehold.core.words import statements
from leasehold.core.words.messages import Rows
from leasehold.ids import BucketNumber
from leasehold.limits.statements import SHOW_INLINE_ROWS_MAX

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
    """Whether putting its rows together takes too long for a loop that grants leases."""
    match question:
        case statements.ShowRebalance() | statements.ShowRepairs():
            return len(catalog.buckets) > SHOW_INLINE_ROWS_MAX or _add_up_to_many(
                map(catalog.segments.count, catalog.segments)
            )
        case statements.ShowTables() if _add_up_to_many(map(catalog.segments.count, catalog.segments)):
            return True
        case statements.ShowBuckets(table=name):
            table = catalog.find_table(name)
            keys = () if table is None else ((table.id, BucketNumber(one)) for one in range(table.buckets))
            return _add_up_to_many(map(catalog.segments.count, keys))
        case statements.ShowTables(database=database) | statements.ShowViews(database=database) if database is not None:
            owner = catalog.find_database(database)
            rows = 0 if owner is None else len(catalog.relation_names.get(owner.id, ()))
        case statements.ShowTables() | statements.ShowViews():
            rows = len(catalog.tables) + len(catalog.views)
        case statements.ShowGrants():
            return _add_up_to_many(len(granted) for granted in catalog.grants.values())
        case statements.ShowPrincipals():
            return _add_up_to_many(1 + len(one.roles) for one in catalog.principals.values())
        case _:
            rows = 0
    return rows > SHOW_INLINE_ROWS_MAX


def _add_up_to_many(sizes: Iterable[int]) -> bool:
    """Looks at no more of them than it takes to know."""
    rows = 0
    for size in sizes:
        rows += size
        if rows > SHOW_INLINE_ROWS_MAX:
            return True
    return False
