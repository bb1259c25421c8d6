"""One catalog with a user, and what tests of rights give and take."""

from leasehold.core.catalog import plan
from leasehold.core.membership.identity import hash_login
from leasehold.core.words import keys
from leasehold.core.words.records import (
    GrantRecord,
    LoginRecord,
    PrincipalKind,
    PrincipalRecord,
    Right,
    TokenRecord,
    TransactionRecord,
    TransactionState,
    UseState,
)
from tests.unit.core.catalog_words import create_database, create_table
from tests.unit.core.ddl_words import ground, view

DATABASE, TABLE, OTHER, VIEW = 1, 2, 3, 4
USER, ROLE = 10, 11
TOKEN = "1" * 32
LOGIN = hash_login(TOKEN)
NOBODY = "2" * 32
TRANSACTION = "3" * 32
ON_TABLE, ON_VIEW, ON_DATABASE = "TABLE db.t", "VIEW db.v", "DATABASE db"


def principal(number, kind=PrincipalKind.USER, **fields):
    whole = {"id": number, "name": "u" if number == USER else f"p{number}", "kind": kind, "state": UseState.IN_USE}
    whole |= {"password_hash": "h" if kind is PrincipalKind.USER else None, "roles": ()}
    return PrincipalRecord(**{**whole, **fields})


def token(name, user):
    return TokenRecord(hash=name.encode(), name=name, user=user, made_us=0, expires_us=None)


def one_catalog():
    """db.t, db.other, db.v which reads db.t; a user without rights who has logged in; a role that he has."""
    base = ground(create_database(), create_table(), create_table("other"))
    base.put(keys.view(VIEW), view(VIEW, (TABLE, (1,)), name="v"))
    base.put(keys.principal(ROLE), principal(ROLE, PrincipalKind.ROLE))
    base.put(keys.principal(USER), principal(USER, roles=(ROLE,)))
    base.put(keys.login(LOGIN), LoginRecord(token_hash=LOGIN, user=USER, order=1))
    base.put(keys.token(b"other"), token("other", ROLE))
    base.put(keys.token(b"own"), token("own", USER))
    record = TransactionRecord(
        id=TRANSACTION, order=1, table=TABLE, schema_version=1, state=TransactionState.OPEN, rows=0
    )
    base.put(keys.transaction(TRANSACTION), record)
    return base.catalog


def given(catalog, *rights, to=USER, leaving=()):
    """With rights as pairs of a right and its object."""
    for target in {target for _, target in rights}:
        held = tuple(right for right, on in rights if on == target)
        record = GrantRecord(object=target, principal=to, rights=held, leaving=leaving)
        catalog = put(catalog, keys.grant(target, to), record)
    return catalog


def put(catalog, key, record):
    return catalog.changed([plan.put(key, record)])


SELECT, INSERT, ALTER, DROP, CREATE = Right
