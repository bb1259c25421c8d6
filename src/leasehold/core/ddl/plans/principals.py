"""Users and roles."""

import msgspec

from leasehold.core.access.certified_names import given_up, taken_up
from leasehold.core.access.logins import end_logins
from leasehold.core.access.rights import CLUSTER, keeps_administrator
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, next_object, put
from leasehold.core.ddl.plans.rights import principal_named
from leasehold.core.ddl.plans.tokens import drop_tokens
from leasehold.core.words import keys, records
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalKind, PrincipalRecord, Right, UseState
from leasehold.core.words.statements import (
    CreateRole,
    CreateUser,
    DropPrincipal,
    RenamePrincipal,
    SetCertificate,
    SetPassword,
    fold,
)
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, Refused
from leasehold.ids import PrincipalId
from leasehold.limits.people import PRINCIPALS_MAX

NAMES_SHOWN = 5


def create_user(statement: CreateUser, catalog: Catalog, context: Context) -> Plan | None:
    """A user without rights; the first user of the cluster has every right on it."""
    if _is_there(statement.name, PrincipalKind.USER, catalog, if_not_exists=statement.if_not_exists):
        return None
    user, numbers = _new(statement.name, PrincipalKind.USER, catalog, context.password_hash)
    changes = [put(keys.principal(user.id), user)]
    if not catalog.users:
        everything = records.GrantRecord(object=CLUSTER, principal=user.id, rights=tuple(Right))
        changes.append(put(keys.grant(CLUSTER, user.id), everything))
    return Plan(changes=tuple(changes), counters=numbers)


def set_password(statement: SetPassword, catalog: Catalog, context: Context) -> Plan | None:
    """Another password; logs the user out everywhere."""
    user = principal_named(statement.name, PrincipalKind.USER, catalog)
    assert context.password_hash is not None, "the leader hashes a password before it decides"
    record = msgspec.structs.replace(user, password_hash=context.password_hash)
    changes = (put(keys.principal(user.id), record), *end_logins(user.id, catalog))
    return Plan(changes=changes, counters=counters(catalog))


def set_certificate(statement: SetCertificate, catalog: Catalog, context: Context) -> Plan | None:
    """Lets certificates log the user in, or no more: then what they have logged in ends. Those of somebody who had the
    name before log nobody in."""
    user = principal_named(statement.name, PrincipalKind.USER, catalog)
    if statement.is_on == user.by_certificate:
        return None
    record = msgspec.structs.replace(user, by_certificate=statement.is_on)
    ended = end_logins(user.id, catalog, lambda login: login.by_certificate)
    newer = taken_up(user.name, catalog, context.wall_us) if statement.is_on else ()
    return Plan(changes=(put(keys.principal(user.id), record), *ended, *newer), counters=counters(catalog))


def create_role(statement: CreateRole, catalog: Catalog, _context: Context) -> Plan | None:
    if _is_there(statement.name, PrincipalKind.ROLE, catalog, if_not_exists=statement.if_not_exists):
        return None
    role, numbers = _new(statement.name, PrincipalKind.ROLE, catalog, None)
    return Plan(changes=(put(keys.principal(role.id), role),), counters=numbers)


def rename_principal(statement: RenamePrincipal, catalog: Catalog, _context: Context) -> Plan | None:
    """Another name for the same user or role: rights, roles and logins stay. A certificate of the new name may be that
    of somebody else, so certificates are off then, and what they have logged in ends."""
    found = principal_named(statement.name, statement.kind, catalog)
    if statement.to == found.name:
        return None
    taken = catalog.find_principal(statement.to)
    if taken is not None and taken.id != found.id:
        raise _exists(taken)
    is_same = fold(statement.to) == fold(found.name)
    record = msgspec.structs.replace(found, name=statement.to, by_certificate=is_same and found.by_certificate)
    ended = () if is_same else end_logins(found.id, catalog, lambda login: login.by_certificate)
    old = (given_up(found.name),) if found.kind is PrincipalKind.USER and not is_same else ()
    return Plan(changes=(put(keys.principal(found.id), record), *ended, *old), counters=counters(catalog))


def drop_principal(statement: DropPrincipal, catalog: Catalog, _context: Context) -> Plan | None:
    """Hides a user or role. A user's logins end with the point of no return: until then they count for nothing, and
    they live again if the statement is rolled back."""
    found = catalog.find_principal(statement.name)
    if statement.if_exists and (found is None or found.kind is not statement.kind):
        return None
    found = principal_named(statement.name, statement.kind, catalog)
    _check_unused(found, catalog)
    hidden = put(keys.principal(found.id), msgspec.structs.replace(found, state=UseState.PRE_DELETE))
    if found.kind is PrincipalKind.USER:
        keeps_administrator(catalog.changed((hidden,)), dropped=found.id)
    return Plan(changes=(hidden,), counters=counters(catalog), hides=(records.HiddenPrincipal(principal=found.id),))


def remove_principal(hidden: records.HiddenPrincipal, catalog: Catalog) -> tuple[Change, ...]:
    """It goes; its rights go behind it (`core/replicas/leftovers.py`)."""
    found = catalog.principals.get(hidden.principal)
    if found is None:
        return ()
    gone = Change(keys.principal(found.id), None)
    old = (given_up(found.name),) if found.kind is PrincipalKind.USER else ()
    return (gone, *end_logins(found.id, catalog), *drop_tokens(found.id, catalog), *old)


def restore_principal(hidden: records.HiddenPrincipal, catalog: Catalog) -> tuple[Change, ...]:
    """It is in use again, and so are the user's logins."""
    record = catalog.principals.get(hidden.principal)
    if record is None or record.state is UseState.IN_USE:
        return ()
    return (put(keys.principal(record.id), msgspec.structs.replace(record, state=UseState.IN_USE)),)


def _is_there(name: str, kind: PrincipalKind, catalog: Catalog, *, if_not_exists: bool) -> bool:
    """Whether there is nothing to do; raises `AlreadyExists`: users and roles share their names."""
    found = catalog.find_principal(name)
    if found is None:
        return False
    if if_not_exists and found.kind is kind:
        return True
    raise _exists(found)


def _exists(found: PrincipalRecord) -> AlreadyExists:
    return AlreadyExists(
        f"{found.kind.value} {found.name} already exists",
        hint="choose another name; users and roles share one set of names",
    )


def _new(
    name: str, kind: PrincipalKind, catalog: Catalog, password_hash: str | None
) -> tuple[PrincipalRecord, records.CountersRecord]:
    if len(catalog.principals) >= PRINCIPALS_MAX:
        text = f"there are {PRINCIPALS_MAX} users and roles, which is the limit"
        raise Refused(text, code=ErrorCode.TOO_MANY_PRINCIPALS, hint="DROP USER or DROP ROLE makes room")
    number, numbers = next_object(catalog)
    assert (password_hash is not None) == (kind is PrincipalKind.USER), "users have passwords, roles have none"
    record = PrincipalRecord(
        id=PrincipalId(number), name=name, kind=kind, state=UseState.IN_USE, password_hash=password_hash, roles=()
    )
    return record, numbers


def _check_unused(found: PrincipalRecord, catalog: Catalog) -> None:
    if found.kind is PrincipalKind.USER:
        return
    users = sorted(one.name for one in catalog.principals.values() if found.id in one.roles)
    if users:
        shown = ", ".join(users[:NAMES_SHOWN]) + (" .." if len(users) > NAMES_SHOWN else "")
        text = f"role {found.name} is one of {len(users)} users: {shown}"
        raise Refused(text, code=ErrorCode.ROLE_IN_USE, hint=f"REVOKE ROLE {found.name} FROM each of them first")
