"""How fast a node deletes what is in its trash."""

from leasehold.core.replicas.reconcile import Emptied
from leasehold.limits.node_disk import TRASH_BYTES_PER_SECOND, TRASH_FILES_PER_SECOND, TRASH_ROUND_FILES_MAX
from leasehold.limits.replication import RECONCILE_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.disk.pace import Pace

ROUNDS = 100


def emptied(size_bytes: int) -> tuple[int, int]:
    """Files and bytes that go in so many rounds, of files of that size, endlessly many."""
    pace = Pace(0)
    files = total = 0
    for number in range(ROUNDS):
        allowed, max_bytes = pace.allows(number * RECONCILE_INTERVAL_NS)
        taken = 0 if max_bytes <= 0 else min(allowed, -(-max_bytes // size_bytes))
        pace.spend(Emptied(files=taken, size_bytes=taken * size_bytes))
        files, total = files + taken, total + taken * size_bytes
    return files, total


def test_small_files_go_at_so_many_a_second() -> None:
    files, _ = emptied(1)
    assert files == TRASH_FILES_PER_SECOND * ROUNDS * RECONCILE_INTERVAL_NS // SECOND_NS


def test_large_ones_at_so_many_bytes_a_second_each_whole() -> None:
    """Also those that are larger than what may go in one round."""
    for size_bytes in (TRASH_BYTES_PER_SECOND // 10, 3 * TRASH_BYTES_PER_SECOND):
        _, total = emptied(size_bytes)
        per_second = total * SECOND_NS // (ROUNDS * RECONCILE_INTERVAL_NS)
        assert TRASH_BYTES_PER_SECOND * 0.9 <= per_second <= TRASH_BYTES_PER_SECOND * 1.1


def test_a_long_pause_saves_up_one_round_and_no_more() -> None:
    pace = Pace(0)
    first = pace.allows(0)
    assert pace.allows(3600 * SECOND_NS) == first == (TRASH_ROUND_FILES_MAX, first[1])
    pace.spend(Emptied(files=first[0], size_bytes=first[1]))
    assert pace.allows(3600 * SECOND_NS + 1) == (0, 0)
