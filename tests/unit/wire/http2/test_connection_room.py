"""Who may have a connection to the doors of a server."""

from collections.abc import Container

from leasehold.limits.http2 import CONNECTIONS_OF_KNOWN_MIN
from leasehold.wire.http2.connection_room import ConnectionRoom


class Guest:
    pass


def room(*, per_peer: int = 3, per_door: int = 4, known: Container[str] = ()) -> ConnectionRoom[Guest]:
    return ConnectionRoom(per_peer_max=per_peer, per_door_max=per_door, known=known)


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


def test_who_came_first_gives_way_where_all_strangers_have_as_many() -> None:
    doors = room()
    first = {peer: Guest() for peer in "abcd"}
    for peer, one in first.items():
        assert doors.enter(0, peer, one) is None
    assert doors.enter(0, "e", Guest()) is first["a"]
    assert doors.enter(0, "a", Guest()) is first["b"]


def test_no_known_peer_gives_way_to_a_stranger() -> None:
    doors = room(known={"a"})
    for peer in "aaab":
        assert doors.enter(0, peer, Guest()) is None
    doors.leave(0, "b", Guest())
    own = Guest()
    assert doors.enter(0, "b", own) is own, "it has the only place of a stranger"
    other = Guest()
    assert doors.enter(0, "c", other) is not None
    assert doors.enter(0, "d", Guest()) is other


def test_known_peers_do_not_keep_strangers_out() -> None:
    many = CONNECTIONS_OF_KNOWN_MIN + 1
    doors = room(per_peer=many, per_door=many, known={"a", "b"})
    first = Guest()
    assert doors.enter(0, "a", first) is None
    for _ in range(many - 1):
        assert doors.enter(0, "a", Guest()) is None
    stranger = Guest()
    assert doors.enter(0, "c", stranger) is first
    further = Guest()
    assert doors.enter(0, "d", further) is stranger, "a known peer keeps so many"
    assert doors.enter(0, "b", Guest()) is further


def test_a_stranger_gives_way_to_a_known_peer() -> None:
    known = {"a", "b"}
    doors = room(known=known)
    first = [Guest() for _ in range(4)]
    for peer, one in zip("aaac", first, strict=True):
        assert doors.enter(0, peer, one) is None
    assert doors.enter(0, "b", Guest()) is first[3]
    assert doors.enter(0, "b", Guest()) is first[0], "no stranger is left"
    further = Guest()
    assert doors.enter(0, "b", further) is further, "b would have more than a"
    known.clear()
    assert doors.enter(0, "d", Guest()) is first[1], "nobody is known any more"


def test_who_leaves_makes_room() -> None:
    doors = room(per_peer=1, per_door=1)
    member, client = Guest(), Guest()
    assert doors.enter(0, "a", member) is None
    doors.leave(0, "a", member)
    assert doors.enter(0, "a", client) is None
    doors.leave(0, "a", member)
    further = Guest()
    assert doors.enter(0, "a", further) is further, "the client is still there"
