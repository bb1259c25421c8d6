"""How many write transactions and queries of Spark one user may begin at a leader."""

import asyncio

import pytest

from leasehold.coordinator.data import transactions as module
from leasehold.coordinator.data.queries import Queries
from leasehold.coordinator.data.transactions import WriteTransactions
from leasehold.coordinator.user_turns import UserTurns
from leasehold.core.catalog.plan import put
from leasehold.core.membership.identity import hash_login
from leasehold.core.words import keys
from leasehold.core.words.messages import (
    AbortTransaction,
    AgreeCutoff,
    CommitTransaction,
    OpenTransaction,
    StagedSegment,
)
from leasehold.core.words.operations import Change
from leasehold.core.words.records import ColumnStatistics, LoginRecord, Right, TransactionState
from leasehold.core.words.statements import CreateUser, GrantRights, OnTable
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, Refused
from leasehold.ids import LoginToken, SegmentId, TransactionId
from leasehold.limits.messages import VALUE_BYTES_MAX
from leasehold.limits.queries import QUERY_KEPT_NS
from leasehold.limits.segments import COMMIT_SMALL_BOUNDS, COMMIT_SMALL_SEGMENTS, TRANSACTION_TTL_NS
from leasehold.testing.threads import NoThreads
from leasehold.wire.entropy import SystemEntropy
from tests.unit.coordinator.office import asked
from tests.unit.coordinator.statement_cases import T
from tests.unit.coordinator.statements.procedure_words import office_test


def opening(office, number, login=None):
    table = office.catalog.find_table(T)
    return OpenTransaction(
        cluster_id="c" * 32,
        login=login,
        transaction=TransactionId(f"{number:032x}"),
        table=table.id,
        schema_version=table.schema_version,
    )


async def token_of(office, user, *, order):
    token = LoginToken(f"{order:032x}")
    record = LoginRecord(token_hash=hash_login(token), user=office.catalog.find_principal(user).id, order=order)
    await office.writer.submit(lambda _: (put(keys.login(record.token_hash), record),))
    return token


def transactions_of(office):
    turns = UserTurns(NoThreads(), office.clock.now_ns)
    return WriteTransactions(office.writer, office.leasing, office.clock, SystemEntropy(), turns, lambda: 0)


async def ann_and_admin(office, *rights):
    """The logins of a user with these rights on the table, and of one with all rights."""
    await office.execute(asked(4, CreateUser(name="admin", password="p")))
    admin = await office.log_in("admin")
    await office.execute(asked(5, CreateUser(name="ann", password="p"), login=admin))
    await office.execute(asked(6, GrantRights(rights=rights, on=OnTable(table=T), to="ann"), login=admin))
    return await token_of(office, "ann", order=1), await token_of(office, "admin", order=2)


async def cancelled(office, call):
    """Ends a call once its command is durable, before it is answered."""
    task = asyncio.ensure_future(call)
    office.on_commit = [lambda *_: task.cancel()]
    with pytest.raises(asyncio.CancelledError):
        await task
    office.on_commit = []


async def refused(transactions, request):
    with pytest.raises(Refused) as caught:
        await transactions.open(request)
    assert caught.value.code is ErrorCode.BUSY
    return caught.value.text


def test_only_so_many_are_open_at_once(monkeypatch):
    monkeypatch.setattr(module, "OPEN_TRANSACTIONS_MAX", 2)

    async def work(office):
        transactions = transactions_of(office)
        for number in (1, 2, 1):
            assert (await transactions.open(opening(office, number))).state is TransactionState.OPEN
        assert await refused(transactions, opening(office, 3)) == "2 write transactions are open"
        await transactions.abort(AbortTransaction(cluster_id="c" * 32, transaction=opening(office, 1).transaction))
        await transactions.open(opening(office, 3))

    office_test(work)


def test_a_user_leaves_room_to_the_others(monkeypatch):
    monkeypatch.setattr(module, "USER_TRANSACTIONS_MAX", 2)

    async def work(office):
        transactions = transactions_of(office)
        ann, other = await ann_and_admin(office, Right.INSERT)
        for number in (1, 2, 1):
            await transactions.open(opening(office, number, ann))
        assert await refused(transactions, opening(office, 3, ann)) == "2 write transactions of ann are open"
        await transactions.open(opening(office, 3, other))

    office_test(work)


def test_opens_whose_callers_gave_up_count_too_and_expire(monkeypatch):
    monkeypatch.setattr(module, "USER_TRANSACTIONS_MAX", 2)

    async def work(office):
        transactions = transactions_of(office)
        ann, other = await ann_and_admin(office, Right.INSERT)
        for number in (1, 2):
            await cancelled(office, transactions.open(opening(office, number, ann)))
        assert await refused(transactions, opening(office, 3, ann)) == "2 write transactions of ann are open"
        later = transactions_of(office)
        assert await refused(later, opening(office, 3, ann)) == "2 write transactions of ann are open"
        await transactions.expire()  # sees them first
        await office.sleep(TRANSACTION_TTL_NS - 1)
        await transactions.open(opening(office, 2, ann))
        await office.sleep(1)
        await transactions.expire()
        states = {int(one, 16): record.state for one, record in office.catalog.transactions.items()}
        assert states == {1: TransactionState.ABORTED, 2: TransactionState.OPEN}
        await transactions.open(opening(office, 3, ann))
        await transactions.open(opening(office, 4, other))

    office_test(work)


def test_opens_that_share_a_transaction_of_the_meta_storage_count(monkeypatch):
    monkeypatch.setattr(module, "USER_TRANSACTIONS_MAX", 2)
    monkeypatch.setattr(module, "OPEN_TRANSACTIONS_MAX", 3)

    async def work(office):
        transactions = transactions_of(office)
        ann, other = await ann_and_admin(office, Right.INSERT)
        asked_for = [(1, ann), (2, ann), (3, ann), (4, other), (5, other)]
        at_once = (transactions.open(opening(office, number, login)) for number, login in asked_for)
        answers = await asyncio.gather(*at_once, return_exceptions=True)
        assert [getattr(one, "code", None) for one in answers] == [None, None, "BUSY", None, "BUSY"]

    office_test(work)


def test_a_user_who_may_not_append_aborts_nothing():
    async def work(office):
        transactions = transactions_of(office)
        await office.execute(asked(4, CreateUser(name="admin", password="p")))
        await office.execute(asked(5, CreateUser(name="ann", password="p"), login=await office.log_in("admin")))
        ann, admin = await token_of(office, "ann", order=1), await token_of(office, "admin", order=2)
        opened = opening(office, 1, admin)
        await transactions.open(opened)
        abort = AbortTransaction(cluster_id="c" * 32, login=ann, transaction=opened.transaction)
        with pytest.raises(Forbidden):
            await transactions.abort(abort)
        assert (await transactions.open(opened)).state is TransactionState.OPEN

    office_test(work)


def committing(opened, count, login=None, *, columns=0):
    """A commit of so many segments that no node holds, with the bounds of so many columns."""
    bounds = tuple(ColumnStatistics(field=one, nulls=0, minimum=1, maximum=2) for one in range(1, columns + 1))
    segments = (
        StagedSegment(
            id=SegmentId(f"{opened.transaction}-{number:032x}"),
            table=opened.table,
            bucket=0,
            schema_version=opened.schema_version,
            rows=1,
            size_bytes=1,
            sha256=bytes(32),
            statistics=bounds,
            holders=(),
        )
        for number in range(count)
    )
    return CommitTransaction(cluster_id="c" * 32, transaction=opened.transaction, segments=tuple(segments), login=login)


def test_a_large_commit_that_is_refused_does_not_reach_the_writer(monkeypatch):
    async def work(office):
        transactions, login = transactions_of(office), (await ann_and_admin(office, Right.INSERT))[0]
        opened = opening(office, 1, login)
        await transactions.open(opened)
        submitted = []
        submit = office.writer.submit

        async def counted(decide):
            submitted.append(decide)
            return await submit(decide)

        monkeypatch.setattr(office.writer, "submit", counted)
        small, wide = COMMIT_SMALL_SEGMENTS, COMMIT_SMALL_BOUNDS
        for count, columns, reaches in (
            (small, wide - 1, True),
            (small + 1, 0, False),
            (small, wide, False),
            (1, small * wide, False),
        ):
            submitted.clear()
            with pytest.raises(Refused) as caught:
                await transactions.commit(committing(opened, count, login, columns=columns))
            assert caught.value.code is ErrorCode.TOO_FEW_HOLDERS
            assert bool(submitted) is reaches

    office_test(work)


def test_a_large_commit_that_no_transaction_can_hold_does_not_reach_the_writer(monkeypatch):
    async def work(office):
        transactions = transactions_of(office)
        opened = opening(office, 1)
        await transactions.open(opened)
        much = (Change(b"k", b"x" * (VALUE_BYTES_MAX + 1)),)
        monkeypatch.setattr(module, "commit_transaction", lambda *_, **__: much)
        monkeypatch.setattr(office.writer, "submit", None)
        with pytest.raises(Refused) as caught:
            await transactions.commit(committing(opened, COMMIT_SMALL_SEGMENTS + 1))
        assert caught.value.code is ErrorCode.TOO_LARGE

    office_test(work)


def test_large_commits_of_users_have_their_turns():
    async def work(office):
        transactions, logins = transactions_of(office), await ann_and_admin(office, Right.INSERT)
        opened = [opening(office, number, login) for number, login in enumerate(logins)]
        for one in opened:
            await transactions.open(one)
        refused = []

        async def commit(number):
            with pytest.raises(Refused):
                await transactions.commit(committing(opened[number], COMMIT_SMALL_SEGMENTS + 1, logins[number]))
            refused.append(number)

        await asyncio.gather(*(commit(number) for number in (0, 0, 0, 0, 1)))
        assert refused == [0, 0, 1, 0, 0], "the other user does not wait for all of the first"

    office_test(work)


def test_a_user_leaves_room_for_queries_of_others(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.cutoff.USER_QUERIES_MAX", 2)

    async def work(office):
        queries = Queries(office.writer, office.clock)
        ann, other = await ann_and_admin(office, Right.SELECT)
        table = office.catalog.find_table(T).id

        async def agree(number, login):
            await queries.agree(AgreeCutoff(cluster_id="c" * 32, login=login, table=table, query=f"{number:032x}"))

        for number, login in ((1, ann), (9, other), (2, ann), (1, ann)):
            await agree(number, login)
        with pytest.raises(Refused, match="2 Spark queries of ann") as caught:
            await agree(3, ann)
        assert caught.value.code is ErrorCode.BUSY
        await agree(1, other)
        await agree(3, other)

    office_test(work)


def test_cutoffs_whose_callers_gave_up_count_too_and_expire(monkeypatch):
    monkeypatch.setattr("leasehold.core.data.cutoff.USER_QUERIES_MAX", 2)

    async def work(office):
        queries = Queries(office.writer, office.clock)
        ann, _ = await ann_and_admin(office, Right.SELECT)
        table = office.catalog.find_table(T).id

        def agree(number):
            return queries.agree(AgreeCutoff(cluster_id="c" * 32, login=ann, table=table, query=f"{number:032x}"))

        for number in (1, 2):
            await cancelled(office, agree(number))
        with pytest.raises(Refused, match="2 Spark queries of ann"):
            await agree(3)
        await queries.expire()  # sees them first
        await office.sleep(QUERY_KEPT_NS)
        await queries.expire()
        assert not office.catalog.queries
        await agree(3)

    office_test(work)
