"""Who asks for a statement: the login it came with, when its turn comes; and what it was refused stays refused."""

import pytest

from leasehold.core.words.records import Outcome
from leasehold.errors import Forbidden, Refused, Unauthenticated
from leasehold.limits.statements import USER_STATEMENTS_RUNNING_BYTES_MAX, USER_STATEMENTS_RUNNING_MAX
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.sql.parse import parse
from tests.unit.coordinator.office import asked
from tests.unit.coordinator.statement_cases import T
from tests.unit.coordinator.statements.procedure_words import begin, office_test, refusal, told

COMMENT, DROP = "COMMENT ON TABLE db.t IS 'x'", "DROP TABLE db.t"
USERS = (
    "CREATE USER admin PASSWORD 'p'",
    "CREATE USER alice PASSWORD 'p'",
    "CREATE USER bob PASSWORD 'p'",
    "GRANT DROP ON TABLE db.t TO alice",
    "GRANT DROP ON TABLE db.t TO bob",
)
LATE = 99
"""The request of alice."""


class Desk:
    """An office with `db.t` and users, of whom `admin` and `alice` have logged in. The node holds no lease."""

    def __init__(self, office):
        self.office = office
        self.admin = self.alice = b""
        self.asked = 10

    async def open(self):
        office = self.office
        await office.silent()
        await self.run(USERS[0])
        self.admin = await office.log_in("admin")
        for text in USERS[1:]:
            await self.run(text)
        self.alice = await office.log_in("alice")
        await office.silent()

    def begin(self, text):
        """By the administrator."""
        self.asked += 1
        return begin(self.office, self.asked, parse(text), login=self.admin)

    async def run(self, text):
        receipt = await self.begin(text)
        assert receipt.outcome is Outcome.COMMITTED, receipt

    def late(self, text=DROP, login=None):
        return asked(LATE, parse(text), text=text, login=login or self.alice)

    async def queued(self):
        """Alice's DROP TABLE, which waits for another statement that waits for the node."""
        office = self.office
        office.renew()
        self.begin(COMMENT)
        await office.sleep(MILLISECOND_NS)
        task = office.group.create_task(told(office.execute(self.late())))
        await office.sleep(MILLISECOND_NS)
        return task

    async def full(self):
        """As many statements of the administrator as may wait, all for the node."""
        comment, numbers = parse(COMMENT), range(1_000, 1_000 + USER_STATEMENTS_RUNNING_MAX)
        waiting = [begin(self.office, one, comment, login=self.admin, timeout_ns=SECOND_NS) for one in numbers]
        await self.office.sleep(MILLISECOND_NS)
        return waiting

    async def settled(self):
        for _ in range(20):
            self.office.renew()
            await self.office.sleep(SECOND_NS // 10)


def desk_test(work):
    async def whole(office):
        desk = Desk(office)
        await desk.open()
        await work(desk)

    office_test(whole)


@pytest.mark.parametrize(
    "meanwhile",
    [
        ("ALTER USER alice PASSWORD 'q'",),
        ("DROP USER alice",),
        ("DROP USER alice", "ALTER USER bob RENAME TO alice"),
    ],
    ids=", ".join,
)
def test_a_statement_that_waits_ends_with_the_login_that_it_came_with(meanwhile):
    async def work(desk):
        late = await desk.queued()
        changing = [desk.begin(text) for text in meanwhile]
        await desk.settled()
        for change in changing:
            assert (await change).outcome is Outcome.COMMITTED
        assert isinstance(await late, Unauthenticated)
        assert desk.office.catalog.find_table(T) is not None
        assert asked(LATE, None).id not in desk.office.catalog.statements

    desk_test(work)


def test_a_statement_that_waits_is_of_the_same_user_whatever_he_is_called_by_then():
    async def work(desk):
        late = await desk.queued()
        desk.begin("ALTER USER alice RENAME TO carol")
        desk.begin("ALTER USER bob RENAME TO alice")
        await desk.settled()
        assert (await late).outcome is Outcome.COMMITTED
        assert desk.office.catalog.statements[desk.late().id].user == "carol"

    desk_test(work)


def test_a_new_password_ends_the_login_that_it_was_set_with():
    async def work(desk):
        receipt = await desk.office.execute(desk.late("ALTER USER alice PASSWORD 'q'"))
        assert receipt.outcome is Outcome.COMMITTED
        again = asked(LATE + 1, parse("ALTER USER alice PASSWORD 'r'"), login=desk.alice)
        assert isinstance(await refusal(desk.office.execute(again)), Unauthenticated)

    desk_test(work)


def test_what_a_login_that_has_ended_was_refused_may_be_asked_for_with_another():
    """A client logs in again and sends the same statement."""

    async def work(desk):
        late = await desk.queued()
        desk.begin("ALTER USER alice PASSWORD 'q'")
        await desk.settled()
        assert isinstance(await late, Unauthenticated)
        await desk.office.silent()
        receipt = await desk.office.execute(desk.late(login=await desk.office.log_in("alice")))
        assert receipt.outcome is Outcome.COMMITTED
        assert desk.office.catalog.find_table(T) is None

    desk_test(work)


def test_a_late_copy_of_what_was_forbidden_is_forbidden_whatever_was_granted_since():
    async def work(desk):
        asking = desk.late("ALTER TABLE db.t ADD COLUMN late INT")
        assert isinstance(await refusal(desk.office.execute(asking)), Forbidden)
        await desk.run("GRANT ALTER ON TABLE db.t TO alice")
        assert isinstance(await refusal(desk.office.execute(asking)), Forbidden)
        assert asking.id not in desk.office.catalog.statements

    desk_test(work)


def test_a_late_copy_of_what_there_was_no_room_for_is_not_run():
    async def work(desk):
        desk.office.renew()
        waiting, late = await desk.full(), desk.late(login=desk.admin)
        assert (await refusal(desk.office.execute(late))).code == "BUSY"
        await desk.settled()
        assert all(one.done() for one in waiting)
        assert (await refusal(desk.office.execute(late))).code == "BUSY"
        with pytest.raises(Refused, match="512 statements of admin are running or waiting"):
            await desk.office.outcome(late.id)
        assert desk.office.catalog.find_table(T) is not None

    desk_test(work)


def test_statements_whose_clients_have_gone_count_and_leave_room_for_other_users():
    async def work(desk):
        desk.office.renew()
        for waiting in await desk.full():
            waiting.cancel()
        await desk.office.sleep(MILLISECOND_NS)
        refused = await refusal(desk.begin(COMMENT))
        assert refused.code == "BUSY"
        assert "of admin" in refused.text
        late = desk.office.group.create_task(told(desk.office.execute(desk.late())))
        await desk.settled()
        assert (await late).outcome is Outcome.COMMITTED
        await desk.run("COMMENT ON DATABASE db IS 'there is room again'")

    desk_test(work)


def test_large_statements_that_wait_are_bounded_by_their_memory():
    async def work(desk):
        desk.office.renew()
        half = USER_STATEMENTS_RUNNING_BYTES_MAX // 2
        comment = parse(COMMENT)
        waiting = [begin(desk.office, one, comment, login=desk.admin, size_bytes=half) for one in (1_000, 1_001)]
        await desk.office.sleep(MILLISECOND_NS)
        refused = await refusal(begin(desk.office, 1_002, comment, login=desk.admin, size_bytes=1))
        assert refused.code == "BUSY"
        assert "2 statements of admin are running or waiting, and there is no memory for one of 1 bytes" in refused.text
        await desk.settled()
        assert [(await one).outcome for one in waiting] == [Outcome.COMMITTED] * 2
        last = begin(desk.office, 1_003, comment, login=desk.admin, size_bytes=half)
        await desk.settled()
        assert (await last).outcome is Outcome.COMMITTED

    desk_test(work)
