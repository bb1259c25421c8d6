"""What a server counts, as a test says."""

from collections import Counter

from leasehold.wire.backlog import CallsOfConnection
from leasehold.wire.own_sockets import FarEnd


class Counted:
    """Stands for what a server counts."""

    def __init__(self) -> None:
        self.in_all = Counter[FarEnd]()
        self.ended = Counter[FarEnd]()
        self.asked = 0

    def of_all(self) -> int:
        return self.in_all.total()

    def of_connections(self) -> dict[FarEnd, CallsOfConnection]:
        self.asked += 1
        return {far: CallsOfConnection(calls, calls - self.ended[far]) for far, calls in self.in_all.items()}
