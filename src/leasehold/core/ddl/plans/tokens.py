"""Tokens, with which programs log in as a user."""

from leasehold.core.access.logins import end_token
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import Context, Plan, counters, put
from leasehold.core.ddl.plans.rights import principal_named
from leasehold.core.words import keys
from leasehold.core.words.operations import Change
from leasehold.core.words.records import PrincipalKind, TokenRecord
from leasehold.core.words.statements import CreateToken, DropToken
from leasehold.error_codes import ErrorCode
from leasehold.errors import AlreadyExists, NotFound, Refused
from leasehold.ids import PrincipalId
from leasehold.limits.people import TOKENS_MAX, TOKENS_PER_USER_MAX


def create_token(statement: CreateToken, catalog: Catalog, context: Context) -> Plan | None:
    user = principal_named(statement.user, PrincipalKind.USER, catalog)
    if catalog.find_token(statement.name) is not None or statement.hash.hex() in catalog.tokens:
        text = f"token {statement.name} already exists, or its hash does"
        raise AlreadyExists(text, hint="choose another name, and a new token")
    if len(catalog.tokens) >= TOKENS_MAX or len(_tokens_of(user.id, catalog)) >= TOKENS_PER_USER_MAX:
        text = f"there are {TOKENS_PER_USER_MAX} tokens of {user.name}, or {TOKENS_MAX} in all, which is the limit"
        raise Refused(text, code=ErrorCode.TOO_MANY_TOKENS, hint="DROP TOKEN makes room; SHOW TOKENS lists them")
    expires_us = None if statement.expires_ns is None else context.wall_us + statement.expires_ns // 1_000
    record = TokenRecord(
        hash=statement.hash, name=statement.name, user=user.id, made_us=context.wall_us, expires_us=expires_us
    )
    return Plan(changes=(put(keys.token(record.hash), record),), counters=counters(catalog))


def drop_token(statement: DropToken, catalog: Catalog, _context: Context) -> Plan | None:
    """The token and what it has logged in end at once."""
    found = catalog.find_token(statement.name)
    if found is None:
        if statement.if_exists:
            return None
        raise NotFound(f"no token {statement.name}", hint="SHOW TOKENS lists them")
    return Plan(changes=end_token(found, catalog), counters=counters(catalog))


def drop_tokens(user: PrincipalId, catalog: Catalog) -> tuple[Change, ...]:
    """The changes that take all tokens of a user who is logged out everywhere."""
    return tuple(Change(keys.token(one.hash), None) for one in _tokens_of(user, catalog))


def _tokens_of(user: PrincipalId, catalog: Catalog) -> list[TokenRecord]:
    return [one for one in catalog.tokens.values() if one.user == user]
