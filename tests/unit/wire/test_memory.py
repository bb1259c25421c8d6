"""When a process gives freed memory back."""

from leasehold.limits.processes import MEMORY_GROWN_BYTES, MEMORY_LOOKS_MAX
from leasehold.wire.memory import MemoryWatch


class Process:
    """Its memory, and at which looks it gave back what was free."""

    def __init__(self) -> None:
        self.resident_bytes = self.held_bytes = 0
        self.given_back_at: list[int] = []
        self._watch = MemoryWatch(lambda: self.resident_bytes, self._give_back)
        self._looks = 0

    def look(self, times: int) -> None:
        for _ in range(times):
            self._looks += 1
            self._watch.look()

    def _give_back(self) -> None:
        self.given_back_at.append(self._looks)
        self.resident_bytes = self.held_bytes


def test_memory_goes_back_less_and_less_often() -> None:
    process = Process()
    process.look(4 * MEMORY_LOOKS_MAX)
    assert process.given_back_at == [1, 3, 7, 15, 31, 63, 127, 255, 415, 575]


def test_a_process_that_has_grown_gives_back_at_once_and_soon_again() -> None:
    process = Process()
    process.look(100)
    process.given_back_at.clear()
    process.resident_bytes = process.held_bytes = MEMORY_GROWN_BYTES
    process.look(8)
    assert process.given_back_at == [101, 102, 104, 108]


def test_memory_that_is_freed_long_after_the_growth_goes_back_too() -> None:
    process = Process()
    process.resident_bytes = process.held_bytes = 10 * MEMORY_GROWN_BYTES
    process.look(100)
    process.held_bytes = 0
    process.look(MEMORY_LOOKS_MAX)
    assert process.resident_bytes == 0


def test_a_little_growth_is_no_reason() -> None:
    process = Process()
    process.look(100)
    process.given_back_at.clear()
    process.resident_bytes = process.held_bytes = MEMORY_GROWN_BYTES - 1
    process.look(8)
    assert process.given_back_at == []
