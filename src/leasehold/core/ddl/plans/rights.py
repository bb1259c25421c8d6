"""Rights, and who has which role."""

from collections.abc import Iterable

import msgspec

from leasehold.core.access.rights import keeps_administrator, object_of
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, put
from leasehold.core.words import keys, records
from leasehold.core.words.operations import Change
from leasehold.core.words.records import GrantRecord, PrincipalKind, PrincipalRecord, Right
from leasehold.core.words.statements import GrantRights, GrantRole, Revoke, RevokeRole
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotFound, Refused
from leasehold.ids import ObjectId, PrincipalId
from leasehold.limits.people import ROLES_PER_USER_MAX


def grant(statement: GrantRights, catalog: Catalog, _context: Context) -> Plan | None:
    """The rights besides those held already; None if all of them are."""
    principal = principal_named(statement.to, None, catalog)
    target = object_of(statement.on, catalog)
    held = _granted(target, principal.id, catalog).rights
    rights = tuple(one for one in Right if one in held or one in statement.rights)
    if rights == held:
        return None
    record = GrantRecord(object=target, principal=principal.id, rights=rights)
    return Plan(changes=(put(keys.grant(target, principal.id), record),), counters=counters(catalog))


def revoke(statement: Revoke, catalog: Catalog, _context: Context) -> Plan | None:
    """Hides those of the rights that are held; None if none is."""
    principal = principal_named(statement.of, None, catalog)
    target = object_of(statement.on, catalog)
    record = _granted(target, principal.id, catalog)
    going = tuple(one for one in record.rights if one in statement.rights)
    if not going:
        return None
    changes = (put(keys.grant(target, principal.id), msgspec.structs.replace(record, leaving=going)),)
    keeps_administrator(catalog.changed(changes))
    hidden = records.HiddenRights(principal=principal.id, object=target, rights=going)
    return Plan(changes=changes, counters=counters(catalog), hides=(hidden,))


def grant_role(statement: GrantRole, catalog: Catalog, _context: Context) -> Plan | None:
    """Gives a user a role; None if the user has it."""
    role = principal_named(statement.role, PrincipalKind.ROLE, catalog)
    user = principal_named(statement.user, PrincipalKind.USER, catalog)
    if role.id in user.roles:
        return None
    if len(user.roles) >= ROLES_PER_USER_MAX:
        text = f"{user.name} has {ROLES_PER_USER_MAX} roles, which is the limit"
        raise Refused(text, code=ErrorCode.TOO_MANY_ROLES, hint=f"REVOKE ROLE .. FROM {user.name} makes room")
    record = msgspec.structs.replace(user, roles=(*user.roles, role.id))
    return Plan(changes=(put(keys.principal(user.id), record),), counters=counters(catalog))


def revoke_role(statement: RevokeRole, catalog: Catalog, _context: Context) -> Plan | None:
    """Hides a role of a user; None if the user does not have it."""
    role = principal_named(statement.role, PrincipalKind.ROLE, catalog)
    user = principal_named(statement.user, PrincipalKind.USER, catalog)
    if role.id not in user.roles:
        return None
    changes = (put(keys.principal(user.id), msgspec.structs.replace(user, leaving=(*user.leaving, role.id))),)
    keeps_administrator(catalog.changed(changes))
    hidden = records.HiddenMembership(user=user.id, role=role.id)
    return Plan(changes=changes, counters=counters(catalog), hides=(hidden,))


def remove_rights(hidden: records.HiddenRights, catalog: Catalog) -> tuple[Change, ...]:
    """The rights are gone; a principal that has none left on the object has no record there."""
    record = _granted(hidden.object, hidden.principal, catalog)
    if not record.leaving:
        return ()
    left = tuple(one for one in record.rights if one not in hidden.rights)
    key = keys.grant(hidden.object, hidden.principal)
    return (put(key, msgspec.structs.replace(record, rights=left, leaving=())) if left else Change(key, None),)


def restore_rights(hidden: records.HiddenRights, catalog: Catalog) -> tuple[Change, ...]:
    record = _granted(hidden.object, hidden.principal, catalog)
    if not record.leaving:
        return ()
    return (put(keys.grant(hidden.object, hidden.principal), msgspec.structs.replace(record, leaving=())),)


def remove_membership(hidden: records.HiddenMembership, catalog: Catalog) -> tuple[Change, ...]:
    """The user does not have the role any more."""
    user = catalog.principals.get(hidden.user)
    if user is None or hidden.role not in user.leaving:
        return ()
    record = msgspec.structs.replace(
        user, roles=_without(user.roles, hidden.role), leaving=_without(user.leaving, hidden.role)
    )
    return (put(keys.principal(user.id), record),)


def restore_membership(hidden: records.HiddenMembership, catalog: Catalog) -> tuple[Change, ...]:
    user = catalog.principals.get(hidden.user)
    if user is None or hidden.role not in user.leaving:
        return ()
    record = msgspec.structs.replace(user, leaving=_without(user.leaving, hidden.role))
    return (put(keys.principal(user.id), record),)


def forget_rights(objects: Iterable[ObjectId], catalog: Catalog) -> tuple[Change, ...]:
    """The changes that delete every right on objects that are gone."""
    return tuple(
        Change(keys.grant(target, principal), None)
        for target in sorted(set(objects))
        for principal in sorted(catalog.grants.get(target) or ())
    )


def principal_named(name: str, kind: PrincipalKind | None, catalog: Catalog) -> PrincipalRecord:
    """The user or role in use under `name`, of that kind if one is asked for; raises `NotFound`."""
    found = catalog.find_principal(name)
    if found is None:
        what = "user or role" if kind is None else kind.value
        raise NotFound(f"no {what} {name}", hint="SHOW USERS and SHOW ROLES list them")
    if kind is not None and found.kind is not kind:
        text = f"{found.name} is a {found.kind.value}, not a {kind.value}"
        raise NotFound(text, hint=f"SHOW {kind.name}S lists them")
    return found


def _granted(target: ObjectId, principal: PrincipalId, catalog: Catalog) -> GrantRecord:
    granted = catalog.grants.get(target)
    record = None if granted is None else granted.get(principal)
    return record or GrantRecord(object=target, principal=principal, rights=())


def _without(roles: tuple[PrincipalId, ...], role: PrincipalId) -> tuple[PrincipalId, ...]:
    return tuple(one for one in roles if one != role)
