"""INV-RIGHT-1: no batch is released to somebody who may not read its table, or a view that it is read through, at the
revision that it is released on.

Nobody may read a table or view that is not in use there. Who else may is reckoned from the model of the catalog
(`testing/catalog.py`): where users exist, the user who has logged in with the request's token, and whose password has
not changed since, or a role of that user, has SELECT on each of them, its database or the cluster. With INV-SERVE-1, by
which no view is older than a REVOKE or DROP that had returned, this says that a revoked right is never honoured and a
dropped table never served.
"""

from typing import Final

from leasehold.core.words import keys
from leasehold.core.words.records import LoginRecord, PrincipalRecord, Right, TableRecord, UseState, ViewRecord
from leasehold.core.words.records.principals import PrincipalKind
from leasehold.core.words.statements import fold
from leasehold.ids import ObjectId, PrincipalId, Revision
from leasehold.testing.catalog import Model
from leasehold.testing.catalog_rows import CLUSTER, CatalogRows, Principal, RowKey
from leasehold.testing.history import Committed
from leasehold.testing.news import Passed
from leasehold.testing.oracle import NO_TABLE, Oracle

HEARS: Final = frozenset({Committed, Passed})


class PasswordChanges:
    """At which revisions each user's password was changed."""

    def __init__(self) -> None:
        self.changed: dict[PrincipalId, list[Revision]] = {}

    def take(self, news: Committed) -> None:
        """One revision of the store."""
        for before in news.before.values():
            if isinstance(before, PrincipalRecord):
                after = news.wrote[keys.principal(before.id)]
                if isinstance(after, PrincipalRecord) and after.password_hash != before.password_hash:
                    self.changed.setdefault(before.id, []).append(news.revision)


def check(oracle: Oracle) -> str | None:
    model, passwords = oracle.recall(Model), oracle.recall(PasswordChanges)
    model.follow(oracle.of(Committed))  # what is wrong with that is for INV-VIEW-1 to say
    for committed in oracle.of(Committed):
        passwords.take(committed)
    for news in oracle.of(Passed):
        if news.table != NO_TABLE:
            revision = news.outcome.view.revision
            wrong = denied(oracle, revision, news.table, news.through, news.login, model.at(revision))
            if wrong is not None:
                return f"{news.process.name} released a batch at revision {revision} {wrong}"
    return None


def denied(
    oracle: Oracle,
    revision: Revision,
    read: ObjectId,
    through: tuple[ObjectId, ...],
    token: bytes | None,
    shown: CatalogRows,
) -> str | None:
    """Why nobody with that login may read a table through these views at a revision; None if that is allowed."""
    table = oracle.history.record_at(revision, keys.table(read))
    if not isinstance(table, TableRecord) or table.state is not UseState.IN_USE:
        return "of a table that is not there"
    views: list[ViewRecord] = []
    for one in through:
        view = oracle.history.record_at(revision, keys.view(one))
        if not isinstance(view, ViewRecord) or view.state is not UseState.IN_USE:
            return f"of {table.name} through a view that is not there"
        views.append(view)
    if not any(isinstance(one, Principal) and one.kind is PrincipalKind.USER for one in shown.values()):
        return None
    if token is None:
        return "to nobody, where users exist"
    login = oracle.history.record_at(revision, keys.login(token))
    if not isinstance(login, LoginRecord):
        return "to a login that has ended"
    since = oracle.history.first_seen[keys.login(token)]
    if any(since < one <= revision for one in oracle.recall(PasswordChanges).changed.get(login.user, ())):
        return "to a login with a password that was changed since"
    user = oracle.history.record_at(revision, keys.principal(login.user))
    if not isinstance(user, PrincipalRecord) or ("principal", fold(user.name)) not in shown:
        return "to a user who is not there"
    for one in (table, *views):
        if not _may(fold(user.name), _place(oracle, revision, one), shown):
            return f"to {user.name}, who may not read {one.name}"
    return None


def _place(oracle: Oracle, revision: Revision, read: TableRecord | ViewRecord) -> tuple[RowKey, ...]:
    """What a right on a table or view can be granted on."""
    database = oracle.history.record_at(revision, keys.database(read.database))
    name = fold(getattr(database, "name", ""))
    kind = "table" if isinstance(read, TableRecord) else "view"
    return CLUSTER, ("database", name), (kind, name, fold(read.name))


def _may(user: str, place: tuple[RowKey, ...], shown: CatalogRows) -> bool:
    principal: Principal = shown["principal", user]
    return any(Right.SELECT in shown.get(("grant", name, *on), ()) for name in (user, *principal.roles) for on in place)
