"""What a statement waits for before its bound counts: other statements, and the last change of its objects."""

from leasehold.core.words.records import Outcome
from leasehold.limits.units import SECOND_NS
from tests.unit.coordinator.office import Office, asked
from tests.unit.coordinator.statements.procedure_words import ADD, DROP, OTHER, begin, office_test


def test_a_receipt_tells_what_the_statement_waited_for_before_its_time_counts() -> None:
    async def work(office: Office) -> None:
        began_ns = office.clock.now_ns()
        adding = begin(office, 5, ADD, timeout_ns=SECOND_NS)
        behind = begin(office, 6, DROP)
        assert (await adding).outcome is Outcome.COMMITTED_PENDING
        receipt = await behind
        took_ns = office.clock.now_ns() - began_ns
        assert receipt.outcome is Outcome.COMMITTED
        assert receipt.waited.queued_ns >= SECOND_NS
        assert receipt.waited.settling_ns >= 2 * SECOND_NS
        assert receipt.waited.nodes == (1,)
        assert receipt.waited.queued_ns + receipt.waited.settling_ns + receipt.elapsed_ns == took_ns
        assert receipt.elapsed_ns < SECOND_NS, "the node was fenced by then"
        assert (await office.outcome(receipt.statement_id)).waited == receipt.waited, "it is durable"
        office.renew()
        assert (await office.execute(asked(7, OTHER))).waited is None, "it waited for nothing"

    office_test(work)


def test_a_node_that_answers_at_the_last_moment_and_then_dies_makes_a_statement_wait_twice() -> None:
    """Once in the queue, until it has reported, and once for its new lease. The bound is of the second wait alone."""

    async def work(office: Office) -> None:
        began_ns = office.clock.now_ns()
        begin(office, 5, ADD)
        behind = begin(office, 6, DROP)
        await office.sleep(3_400_000_000)
        office.renew()
        receipt = await behind
        took_ns = office.clock.now_ns() - began_ns
        assert took_ns > 6_900_000_000 > receipt.bound_ns > receipt.elapsed_ns
        assert receipt.waited.queued_ns + receipt.waited.settling_ns + receipt.elapsed_ns == took_ns

    office_test(work)
