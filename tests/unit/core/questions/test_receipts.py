"""Pages of receipts."""

from leasehold.core.ddl import close
from leasehold.core.questions.receipts import receipts
from leasehold.core.words.messages import AskReceipts
from tests.unit.core.catalog_words import Ground, create_database, receipt


def test_barriers_are_told_page_by_page_in_the_order_of_their_statements():
    ground = Ground()
    begun = [ground.begin(create_database(name)) for name in ("a", "b", "c", "d")]
    for procedure in reversed(begun[:3]):
        proved = receipt(ground.catalog.revision, sequence=procedure.number)
        ground.commit(close(procedure, ground.catalog, barrier=proved, elapsed_ns=1))
    first = receipts(AskReceipts(after=0, limit=2), ground.catalog)
    assert [one.order for one in first.barriers] == [1, 2]
    assert [one.barrier.sequence for one in first.barriers] == [1, 2]
    rest = receipts(AskReceipts(after=first.next_after, limit=2), ground.catalog)
    assert [one.order for one in rest.barriers] == [3], "the fourth has not proceeded"
    assert rest.next_after is None
    assert len(receipts(AskReceipts(after=0, limit=0), ground.catalog).barriers) == 1
