"""How fast a node deletes what is in its trash, and how fast it copies."""

from leasehold.core.replicas.reconcile import Emptied
from leasehold.limits.node_disk import TRASH_BYTES_PER_SECOND, TRASH_FILES_PER_SECOND, TRASH_ROUND_FILES_MAX
from leasehold.limits.replication import RECONCILE_INTERVAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.disk.pace import CopyPace, Pace

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


def copied(rate: int, size_bytes: int, rounds: int = ROUNDS) -> int:
    """How long so many copies take at least that take no time by themselves."""
    pace, now_ns = CopyPace(0), 0
    for _ in range(rounds):
        now_ns += pace.wait_ns(now_ns, rate)
        assert pace.wait_ns(now_ns, rate) == 0
        pace.spend(size_bytes)
    return now_ns


def test_copies_are_made_at_so_many_bytes_a_second_whatever_their_size() -> None:
    for size_bytes in (1, 1_000, 10**9):
        assert copied(1_000, size_bytes) == (ROUNDS - 1) * size_bytes * SECOND_NS // 1_000


def test_the_time_that_a_copy_takes_counts_and_a_pause_saves_up_nothing() -> None:
    pace = CopyPace(0)
    assert pace.wait_ns(3600 * SECOND_NS, 10) == 0
    pace.spend(100)
    assert pace.wait_ns(3604 * SECOND_NS, 10) == 6 * SECOND_NS
    assert pace.wait_ns(3604 * SECOND_NS, 60) == SECOND_NS, "another rate counts from then on"


def test_what_a_copy_did_not_bring_is_given_back() -> None:
    pace = CopyPace(0)
    pace.spend(100)
    pace.correct(100, 30)
    assert pace.wait_ns(0, 10) == 3 * SECOND_NS
    pace.spend(1_000)
    assert pace.wait_ns(50 * SECOND_NS, 10) == 53 * SECOND_NS
    pace.correct(1_000, 0)
    assert pace.wait_ns(50 * SECOND_NS, 10) == 0, "a pause that was long enough saves up nothing"
    pace.correct(10, 50)
    assert pace.wait_ns(50 * SECOND_NS, 10) == 4 * SECOND_NS, "copies of several nodes came"


def test_who_asks_often_waits_no_longer() -> None:
    """At this rate a byte takes no whole number of nanoseconds."""
    pace, rate = CopyPace(0), 64 * 1024 * 1024
    pace.spend(1)
    first_ns = pace.wait_ns(0, rate)
    assert [pace.wait_ns(now_ns, rate) for now_ns in range(first_ns + 1)] == [*range(first_ns, -1, -1)]
