"""Whose a statement is, by the table in `core.ddl.origin`; records of older versions among them."""

import sys

import pytest

from leasehold.core.access.rights import CLUSTER
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.plan import put
from leasehold.core.ddl.origin import Origin, beginning, check_same_asker, hash_text, hears_text
from leasehold.core.membership.identity import hash_login
from leasehold.core.words import keys
from leasehold.core.words.records import (
    GrantRecord,
    LoginRecord,
    Outcome,
    PrincipalKind,
    PrincipalRecord,
    Right,
    StatementRecord,
    UseState,
)
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.ids import LoginToken, PrincipalId, StatementId
from leasehold.limits.statements import STATEMENT_TEXT_BYTES_KEPT, STATEMENT_TEXT_COMPARED

LONG = "x" * STATEMENT_TEXT_COMPARED
ENDED = hash_login(LoginToken("e" * 32))


def login(user: str) -> bytes:
    return hash_login(LoginToken(user * 32))


def users(*names: str, administrator: str = "a") -> Catalog:
    catalog = Catalog()
    for number, name in enumerate(names, 1):
        who = PrincipalId(number)
        record = PrincipalRecord(
            id=who, kind=PrincipalKind.USER, name=name, state=UseState.IN_USE, password_hash="", roles=(), leaving=()
        )
        changes = [put(keys.principal(who), record)]
        changes.append(put(keys.login(login(name)), LoginRecord(token_hash=login(name), user=who, order=number)))
        if name == administrator:
            granted = GrantRecord(object=CLUSTER, principal=who, rights=(Right.ALTER,), leaving=())
            changes.append(put(keys.grant(CLUSTER, who), granted))
        catalog = catalog.changed(changes)
    return catalog


def origin(user: str | None, by: bytes | None, text: str = "DROP TABLE d.t") -> Origin:
    return Origin(user=user, login=by, text=beginning(text), text_sha256=hash_text(text))


@pytest.mark.parametrize(
    ("asking", "again", "outcome"),
    [
        (login("b"), None, True),
        (ENDED, None, True),
        (login("a"), Refused, True),
        (login("c"), Refused, Forbidden),
        (None, Unauthenticated, Unauthenticated),
        (hash_login(LoginToken("f" * 32)), Unauthenticated, Unauthenticated),
    ],
    ids=["its user", "its login, which has ended", "an administrator", "another user", "nobody", "an unknown login"],
)
def test_who_hears_of_a_statement(
    asking: bytes | None, again: type[Refused] | None, outcome: type[Refused] | bool
) -> None:
    catalog, asked = users("a", "b", "c"), origin("b", ENDED)
    if again is None:
        check_same_asker(asked, asking, catalog)
    else:
        with pytest.raises(again) as caught:
            check_same_asker(asked, asking, catalog)
        assert type(caught.value) is again
    if isinstance(outcome, bool):
        assert hears_text(asked, asking, catalog) is outcome
    else:
        with pytest.raises(outcome):
            hears_text(asked, asking, catalog)


@pytest.mark.parametrize("asking", [None, login("b")])
def test_of_a_statement_from_before_there_were_users_the_outcome_is_told_without_its_text(asking: bytes | None) -> None:
    asked = origin(None, None)
    check_same_asker(asked, asking, users("a", "b"))
    assert not hears_text(asked, asking, users("a", "b"))


@pytest.mark.parametrize("asked", [origin(None, None), origin("b", ENDED)])
def test_without_users_everybody_hears_all(asked: Origin) -> None:
    check_same_asker(asked, None, Catalog())
    assert hears_text(asked, None, Catalog())


def test_a_text_is_the_same_to_its_last_character() -> None:
    asked = origin("b", None, LONG + "a")
    assert asked.has_text(LONG + "a")
    assert not asked.has_text(LONG + "b")
    assert not asked.has_text(LONG)


def test_of_a_record_of_an_older_version_what_it_keeps_is_compared() -> None:
    record = StatementRecord(
        id=StatementId("5" * 32),
        order=1,
        text=LONG,
        outcome=Outcome.COMMITTED,
        revision=None,
        elapsed_ns=0,
        bound_ns=0,
        barriers=(),
        pending=(),
        user="b",
    )
    older = Origin.of(record)
    assert older.has_text(LONG + "a")
    assert not older.has_text("y" + LONG)
    check_same_asker(older, login("b"), users("a", "b"))
    with pytest.raises(Refused):
        check_same_asker(older, login("a"), users("a", "b"))


@pytest.mark.parametrize("character", ["x", "\xe9", "\u0439", "\u6f22", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("place", [0, STATEMENT_TEXT_BYTES_KEPT // 2, STATEMENT_TEXT_BYTES_KEPT - 1])
def test_what_is_kept_of_a_text_is_bounded_by_its_memory_and_its_utf_8(character: str, place: int) -> None:
    text = "x" * place + character + "x" * STATEMENT_TEXT_BYTES_KEPT
    kept = beginning(text)
    assert text.startswith(kept)
    assert STATEMENT_TEXT_BYTES_KEPT // 4 <= len(kept) <= STATEMENT_TEXT_BYTES_KEPT
    assert sys.getsizeof(kept) <= sys.getsizeof("\N{GRINNING FACE}") + STATEMENT_TEXT_BYTES_KEPT
    assert len(kept.encode()) <= STATEMENT_TEXT_BYTES_KEPT
    assert beginning(kept) == kept


@pytest.mark.parametrize("text", ["", "x" * STATEMENT_TEXT_BYTES_KEPT, "\xe9" * (STATEMENT_TEXT_BYTES_KEPT // 2)])
def test_a_short_text_is_kept_whole(text: str) -> None:
    assert beginning(text) == text
