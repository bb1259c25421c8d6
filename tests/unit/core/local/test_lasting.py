"""What a revision does not change is not checked again for each open, and what it takes away ends the open."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.holder import Lease, Pass
from leasehold.core.local import opens
from leasehold.core.local.opens import LocalOpens, check_lasting
from leasehold.core.membership.identity import node_login
from leasehold.core.words import keys
from leasehold.core.words.messages import Cutoff, OpenLocal
from leasehold.core.words.operations import Change
from leasehold.core.words.records import DeleteRecord, Field, HorizonRecord, LoginRecord, PrincipalKind, UseState
from leasehold.errors import LeaseholdError
from leasehold.ids import LoginToken, Sequence, Term
from leasehold.limits.statements import COLUMNS_MAX
from tests.unit.core.access.rights_words import (
    DATABASE,
    LOGIN,
    ROLE,
    SELECT,
    TABLE,
    TOKEN,
    USER,
    VIEW,
    given,
    one_catalog,
    principal,
    put,
)

T = TypeVar("T")
OPENS = 126
NOW = UseState.IN_USE
FIELDS = tuple(Field(id=n, name=f"c{n}", type="INT", nullable=True, state=NOW) for n in range(1, COLUMNS_MAX + 1))


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """A wide table, with a DELETE and a horizon. The user may read the table by a role, and the view by a right."""
    found = given(one_catalog(), (SELECT, VIEW))
    found = with_fields(given(found, (SELECT, TABLE), to=ROLE), FIELDS)
    found = put(found, keys.delete(TABLE, 1), DeleteRecord(table=TABLE, number=1, state=UseState.PRE_DELETE, where=()))
    return put(found, keys.horizon(TABLE), HorizonRecord(table=TABLE, horizon_us=5))


def with_fields(catalog: Catalog, fields: tuple[Field, ...]) -> Catalog:
    return put(catalog, keys.table(TABLE), msgspec.structs.replace(catalog.tables[TABLE], fields=fields))


def asked(catalog: Catalog, number: int = 0, fields: tuple[Field, ...] = FIELDS) -> OpenLocal:
    assert catalog.cluster is not None
    return OpenLocal(
        cluster_id=catalog.cluster.cluster_id,
        request=f"{number:032x}",
        proof=b"",
        table=TABLE,
        fields=fields,
        groups=(),
        revision=catalog.revision,
        cutoff=Cutoff(revision=catalog.revision, deletes=1, undecided=(1,), earliest_us=5),
        generation=catalog.cluster.generation,
        through=(VIEW,),
        login=node_login(LoginToken(TOKEN)),
    )


def opened(catalog: Catalog, *requests: OpenLocal) -> LocalOpens:
    made = LocalOpens()
    for request in requests:
        made.begin(request, "u")
        made.extend(request.request, request.login, "u", passed(catalog))
    return made


def passed(view: Catalog) -> Pass[Catalog]:
    return Pass(view, Lease(term=Term(1), sequence=Sequence(1), deadline_ns=100), 30)


def column(number: int, **changed: object) -> tuple[Field, ...]:
    """The columns after a change of one of them."""
    one = msgspec.structs.replace(FIELDS[number - 1], **changed)
    return (*FIELDS[: number - 1], one, *FIELDS[number:])


def elsewhere(catalog: Catalog) -> list[Catalog]:
    """Revisions that change something else."""
    assert catalog.cluster is not None
    logins = put(catalog, keys.login(b"l" * 32), LoginRecord(token_hash=b"l" * 32, user=USER, order=2))
    tables = put(logins, keys.table(9), msgspec.structs.replace(catalog.tables[TABLE], id=9, name="wide"))
    deletes = put(tables, keys.delete(9, 1), DeleteRecord(table=9, number=1, state=UseState.IN_USE, where=()))
    horizons = put(deletes, keys.horizon(9), HorizonRecord(table=9, horizon_us=7, since=7))
    gone = horizons.changed([Change(keys.login(b"l" * 32), None), Change(keys.delete(9, 1), None)])
    return [logins, tables, deletes, horizons, gone, msgspec.structs.replace(gone, revision=gone.revision + 1)]


class Work:
    """Which parts of the check have run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        for name in ("check_columns", "check_read", "check_through", "check_decided", "columns_in_use"):
            monkeypatch.setattr(opens, name, self._counting(name, getattr(opens, name)))

    def _counting(self, name: str, whole: Callable[..., T]) -> Callable[..., T]:
        def counted(*given: object) -> T:
            self.calls.append(name)
            return whole(*given)

        return counted

    def since(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


def test_a_revision_that_changes_nothing_for_an_open_costs_nothing(catalog, monkeypatch):
    """126 opens of a table of 2,000 columns took 30 ms for each revision, in the event loop that renews the lease."""
    work, requests = Work(monkeypatch), [asked(catalog, number) for number in range(OPENS)]
    made = opened(catalog, *requests)
    parts = "check_read", "check_through", "check_columns", "check_decided"
    assert work.since() == [*parts] * OPENS
    for view in elsewhere(catalog):
        made.viewed(view)
        for request in requests:
            made.extend(request.request, request.login, "u", passed(view))
    assert work.since() == []
    assert made.to_remove() == ()


def test_a_change_of_the_table_looks_at_its_columns_once_for_all_opens(catalog, monkeypatch):
    made = opened(catalog, *(asked(catalog, number, FIELDS[1:]) for number in range(OPENS)))
    work = Work(monkeypatch)
    for changed in (column(2, comment="new"), column(1, state=UseState.PRE_DELETE)):
        made.viewed(with_fields(catalog, changed))
        calls = work.since()
        assert calls.count("columns_in_use") == 2
        assert "check_columns" not in calls
    assert made.to_remove() == (), "the column that was dropped is none of theirs"


def ends(catalog: Catalog) -> dict[str, tuple[str, Catalog]]:
    """The revisions that end an open, and with which error."""
    assert catalog.cluster is not None
    table, view = catalog.tables[TABLE], catalog.views[VIEW]
    going, number = UseState.PRE_DELETE, catalog.cluster.generation
    user = principal(USER, roles=(ROLE,))

    def changed(key: bytes, record: object, **fields: object) -> Catalog:
        return put(catalog, key, msgspec.structs.replace(record, **fields))

    def without(key: bytes) -> Catalog:
        return catalog.changed([Change(key, None)])

    newer = DeleteRecord(table=TABLE, number=2, state=going, where=())
    login = catalog.logins[LOGIN]
    return {
        "a column is dropped": ("COLUMN_DROPPED", with_fields(catalog, column(7, state=going))),
        "the last column is gone": ("COLUMN_DROPPED", with_fields(catalog, FIELDS[:-1])),
        "the table is dropped": ("TABLE_DROPPED", changed(keys.table(TABLE), table, state=going)),
        "the table is gone": ("TABLE_DROPPED", without(keys.table(TABLE))),
        "the view is dropped": ("VIEW_DROPPED", changed(keys.view(VIEW), view, state=going)),
        "the view is gone": ("VIEW_DROPPED", without(keys.view(VIEW))),
        "the right is leaving": ("FORBIDDEN", given(catalog, (SELECT, VIEW), leaving=(SELECT,))),
        "the right is gone": ("FORBIDDEN", without(keys.grant(VIEW, USER))),
        "the right of the role is gone": ("FORBIDDEN", without(keys.grant(TABLE, ROLE))),
        "the role is leaving": ("FORBIDDEN", changed(keys.principal(USER), user, leaving=(ROLE,))),
        "the user lost the role": ("FORBIDDEN", changed(keys.principal(USER), user, roles=())),
        "the role is dropped": (
            "FORBIDDEN",
            put(catalog, keys.principal(ROLE), principal(ROLE, PrincipalKind.ROLE, state=going)),
        ),
        "the user is dropped": ("UNAUTHENTICATED", changed(keys.principal(USER), user, state=going)),
        "the login has ended": ("UNAUTHENTICATED", without(keys.login(LOGIN))),
        "the login is another's": ("FORBIDDEN", changed(keys.login(LOGIN), login, user=ROLE)),
        "rows are deleted": ("ROWS_TAKEN_AWAY", put(catalog, keys.delete(TABLE, 2), newer)),
        "a DELETE is rolled back": ("ROWS_TAKEN_AWAY", without(keys.delete(TABLE, 1))),
        "a TTL is shorter": (
            "ROWS_TAKEN_AWAY",
            put(catalog, keys.horizon(TABLE), HorizonRecord(table=TABLE, horizon_us=9, since=2)),
        ),
        "local_reads is off": ("NOT_LOCAL", changed(keys.CLUSTER, catalog.cluster, local_reads=0)),
        "the generation is new": (
            "GENERATION_CHANGED",
            changed(keys.CLUSTER, catalog.cluster, generation=number + 1),
        ),
    }


ENDS = tuple(ends(given(with_fields(one_catalog(), FIELDS))))


@pytest.mark.parametrize("which", ENDS)
def test_an_open_that_was_not_checked_for_a_while_still_ends(catalog, which, monkeypatch):
    request = asked(catalog)
    made, work, views = opened(catalog, request), Work(monkeypatch), elsewhere(catalog)
    for view in views:
        made.viewed(view)
    assert work.since() == []
    code, view = ends(views[-1])[which]
    made.viewed(view)
    assert made.to_remove() == (request.request,)
    with pytest.raises(LeaseholdError) as caught:
        check_lasting(request, request.login, view)
    assert caught.value.code == code
    with pytest.raises(LeaseholdError) as ended:
        made.extend(request.request, request.login, "u", passed(view))
    assert (ended.value.code, ended.value.text) == (code, caught.value.text)


def test_a_table_that_is_moved_out_of_the_database_on_which_the_right_is_ends_an_open(catalog):
    inside = given(catalog.changed([Change(keys.grant(TABLE, ROLE), None)]), (SELECT, DATABASE))
    made = opened(inside, asked(inside))
    moved = msgspec.structs.replace(inside.tables[TABLE], database=9)
    database = msgspec.structs.replace(inside.databases[DATABASE], id=9, name="other")
    made.viewed(put(put(inside, keys.database(9), database), keys.table(TABLE), moved))
    with pytest.raises(LeaseholdError) as caught:
        made.check_open(asked(inside).request)
    assert caught.value.code == "FORBIDDEN"


def test_the_first_user_ends_an_open_without_a_login(catalog):
    nobody = msgspec.structs.replace(asked(catalog), login=None)
    gone = [Change(keys.principal(USER), None), Change(keys.login(LOGIN), None)]
    made = opened(catalog.changed(gone), nobody)
    made.viewed(catalog)
    assert made.to_remove() == (nobody.request,)


def test_another_login_is_checked_though_the_view_is_the_same(catalog):
    request = asked(catalog)
    made = opened(catalog, request)
    for other in (None, node_login(LoginToken("9" * 32))):
        with pytest.raises(LeaseholdError) as caught:
            made.extend(request.request, other, "u", passed(catalog))
        assert caught.value.code == "UNAUTHENTICATED"
    assert made.to_remove() == ()


def test_unchanged_records_and_inner_maps_stay_the_same_objects(catalog):
    """What lets an open skip a check: `Allowed` compares objects, not their values."""
    for view in elsewhere(catalog):
        assert view.tables[TABLE] is catalog.tables[TABLE]
        assert view.deletes[TABLE] is catalog.deletes[TABLE]
        assert view.horizons[TABLE] is catalog.horizons[TABLE]
        assert view.grants is catalog.grants
        assert view.principals is catalog.principals
        assert view.views is catalog.views
        assert view.cluster is catalog.cluster
