"""Who may have a connection to the doors of a server."""

from leasehold.wire.http2.connection_room import ConnectionRoom


class Guest:
    def __init__(self, *, is_of_member: bool = False) -> None:
        self.is_of_member = is_of_member


def room(*, per_peer: int = 3, per_door: int = 4) -> ConnectionRoom[Guest]:
    return ConnectionRoom(per_peer_max=per_peer, per_door_max=per_door)


def test_a_peer_has_at_most_so_many_at_each_door() -> None:
    doors = room()
    first = [Guest() for _ in range(3)]
    assert [doors.enter(0, "a", one) for one in first] == [None] * 3
    one_more = Guest()
    assert doors.enter(0, "a", one_more) is one_more
    doors.leave(0, "a", one_more)
    assert doors.enter(1, "a", one_more) is None
    doors.leave(0, "a", first[1])
    assert doors.enter(0, "a", Guest()) is None


def test_who_has_most_at_a_full_door_gives_way_to_others() -> None:
    doors = room()
    first, second, third = (Guest() for _ in range(3))
    for one in (first, second, third):
        assert doors.enter(0, "a", one) is None
    assert doors.enter(0, "b", Guest()) is None
    assert doors.enter(0, "c", Guest()) is first
    further = Guest()
    assert doors.enter(0, "c", further) is further, "c would have as many as a"
    assert doors.enter(0, "d", Guest()) is second


def test_a_member_never_gives_way() -> None:
    doors = room(per_door=2)
    member, client = Guest(is_of_member=True), Guest()
    assert doors.enter(0, "a", member) is None
    assert doors.enter(0, "a", client) is None
    assert doors.enter(0, "b", Guest()) is client
    doors.leave(0, "a", client)
    other = Guest()
    assert doors.enter(0, "c", other) is other


def test_a_peer_whose_connections_are_all_of_members_keeps_them() -> None:
    doors = room(per_door=5)
    for _ in range(3):
        assert doors.enter(0, "a", Guest(is_of_member=True)) is None
    first = Guest()
    assert doors.enter(0, "b", first) is None
    assert doors.enter(0, "b", Guest()) is None
    assert doors.enter(0, "c", Guest()) is first
