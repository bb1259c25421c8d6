"""Users, roles, tokens and rights as SHOW tells them."""

from collections.abc import Callable

from leasehold.core.access.rights import object_named, object_of
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.questions.rows import Row, rows_of
from leasehold.core.words.literals import render_instant
from leasehold.core.words.messages import Rows
from leasehold.core.words.records import GrantRecord, PrincipalKind, PrincipalRecord, UseState
from leasehold.core.words.statements import ShowGrants, ShowPrincipals
from leasehold.errors import NotFound
from leasehold.ids import PrincipalId


def principals(question: ShowPrincipals, catalog: Catalog, failed_logins: Callable[[str], int]) -> Rows:
    """SHOW USERS, with the roles of each user, or SHOW ROLES, with the users of each role."""
    used = sorted(_principals(catalog), key=lambda one: one.name)
    users = [one for one in used if one.kind is PrincipalKind.USER]
    if question.roles:
        having: dict[PrincipalId, list[str]] = {one.id: [] for one in used if one.kind is PrincipalKind.ROLE}
        for user in users:
            for role in _roles(user) & having.keys():
                having[role].append(user.name)
        rows = [(one.name, ", ".join(having[one.id])) for one in used if one.id in having]
        return rows_of(("role", "users"), rows, catalog)
    names = {one.id: one.name for one in used}
    return rows_of(
        ("user", "roles", "failed_logins", "by_certificate"),
        [
            (
                one.name,
                ", ".join(sorted(names[role] for role in _roles(one) if role in names)),
                failed_logins(one.name),
                one.by_certificate,
            )
            for one in users
        ],
        catalog,
    )


def tokens(catalog: Catalog) -> Rows:
    """SHOW TOKENS: each token's name, its user, when it was made and until when it is valid."""
    names = {one.id: one.name for one in _principals(catalog)}
    rows: list[Row] = [
        (one.name, names[one.user], _second(one.made_us), None if one.expires_us is None else _second(one.expires_us))
        for one in sorted(catalog.tokens.values(), key=lambda one: one.name)
        if one.user in names
    ]
    return rows_of(("token", "user", "made", "expires"), rows, catalog)


def _second(wall_us: int) -> str:
    return render_instant(wall_us // 1_000_000 * 1_000_000)


def grants(question: ShowGrants, catalog: Catalog) -> Rows:
    """SHOW GRANTS: the rights of each user and role; of one user, those of its roles too."""
    who = None if question.principal is None else _with_roles(question.principal, catalog)
    objects = catalog.grants if question.on is None else (object_of(question.on, catalog),)
    names = {one.id: one for one in _principals(catalog)}
    rows: list[Row] = []
    for object_id in objects:
        kind, name = object_named(object_id, catalog)
        for principal, grant in catalog.grants.get(object_id, {}).items():
            held = _held(grant)
            if held and principal in names and (who is None or principal in who):
                one = names[principal]
                rows.append((one.name, one.kind.value, kind, name, held))
    return rows_of(("principal", "principal_kind", "kind", "object", "rights"), sorted(rows), catalog)


def _principals(catalog: Catalog) -> list[PrincipalRecord]:
    return [one for one in catalog.principals.values() if one.state is UseState.IN_USE]


def _roles(user: PrincipalRecord) -> set[PrincipalId]:
    return set(user.roles) - set(user.leaving)


def _with_roles(name: str, catalog: Catalog) -> set[PrincipalId]:
    found = catalog.find_principal(name)
    if found is None:
        raise NotFound(f"no user or role {name}", hint="SHOW USERS and SHOW ROLES list them")
    return {found.id, *_roles(found)}


def _held(grant: GrantRecord) -> str:
    return ", ".join(one.value for one in grant.rights if one not in grant.leaving)
