"""Questions that a catalog answers by itself."""

from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.settings import settings_rows
from leasehold.core.questions import principals, relations
from leasehold.core.questions.rows import rows_of
from leasehold.core.words.messages import Rows
from leasehold.core.words.statements import (
    Describe,
    DescribeDatabase,
    ShowCluster,
    ShowDatabases,
    ShowGrants,
    ShowPrincipals,
    ShowProperties,
    ShowTables,
    ShowViews,
)
from leasehold.limits.statements import SHOW_INLINE_ROWS_MAX

CatalogQuestion: TypeAlias = (
    ShowDatabases
    | ShowTables
    | ShowViews
    | ShowCluster
    | ShowProperties
    | ShowPrincipals
    | ShowGrants
    | Describe
    | DescribeDatabase
)


def answer(question: CatalogQuestion, catalog: Catalog, failed_logins: Callable[[str], int]) -> Rows:
    """The rows of the answer. `failed_logins` counts wrong passwords by the name of a user.

    Where `is_large` says so it takes too long for a loop that grants leases.
    """
    match question:
        case ShowDatabases():
            return relations.databases(question, catalog)
        case ShowTables():
            return relations.tables(question, catalog)
        case ShowViews():
            return relations.views(question, catalog)
        case ShowProperties():
            return relations.properties(question, catalog)
        case Describe():
            return relations.columns(question, catalog)
        case DescribeDatabase():
            return relations.database(question, catalog)
        case ShowPrincipals():
            return principals.principals(question, catalog, failed_logins)
        case ShowGrants():
            return principals.grants(question, catalog)
        case ShowCluster():
            return rows_of(("setting", "value", "range", "meaning"), settings_rows(catalog), catalog)
        case _:
            assert_never(question)


def is_large(question: object, catalog: Catalog) -> bool:
    """Whether putting its rows together takes too long for a loop that grants leases."""
    match question:
        case ShowTables() if _add_up_to_many(map(catalog.segments.count, catalog.segments)):
            return True
        case ShowTables(database=database) | ShowViews(database=database) if database is not None:
            owner = catalog.find_database(database)
            rows = 0 if owner is None else len(catalog.relation_names.get(owner.id, ()))
        case ShowTables() | ShowViews():
            rows = len(catalog.tables) + len(catalog.views)
        case ShowGrants():
            return _add_up_to_many(len(granted) for granted in catalog.grants.values())
        case ShowPrincipals():
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
