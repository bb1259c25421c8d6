"""Which peers lose their answers if all peers together take too few."""

from collections.abc import Collection

from leasehold.wire.untaken_answers import UntakenAnswers

CALL_BYTES = 1


class Answers:
    """Room for 100 bytes, 60 of one peer."""

    def __init__(self, *, are_counted: bool = True) -> None:
        self.ended: list[str] = []
        self._answers = UntakenAnswers(
            are_counted=are_counted, end=self._end, per_peer_max=60, bytes_max=100, call_bytes=CALL_BYTES
        )

    def _end(self, connections: Collection[str]) -> None:
        self.ended += sorted(connections)

    def hold(self, connection: str, size_bytes: int) -> bool:
        """The first letter is the peer."""
        return self._answers.hold(connection[0], connection, size_bytes - CALL_BYTES)

    def drop(self, connection: str, size_bytes: int) -> None:
        self._answers.drop(connection[0], connection, size_bytes - CALL_BYTES)


def test_each_peer_has_room_and_gets_it_back() -> None:
    answers = Answers()
    assert answers.hold("a1", 61), "a single one always has room"
    assert not answers.hold("a2", 1)
    assert answers.hold("b1", 20)
    assert not answers.hold("b2", 41)
    answers.drop("a1", 61)
    assert answers.hold("a2", 60)
    assert answers.ended == []


def test_the_connections_of_the_peer_with_most_are_ended() -> None:
    answers = Answers()
    for connection in ("a1", "a2", "b1", "c1"):
        assert answers.hold(connection, 20)
    assert answers.hold("d1", 30), "it held nothing before"
    assert answers.ended == ["a1", "a2"]
    assert not answers.hold("a1", 1), "it ends"
    assert answers.hold("a3", 10)
    answers.drop("a1", 20)
    answers.drop("a2", 20)
    assert answers.hold("a1", 10), "another connection with the same name"
    assert answers.hold("d1", 1), "there is room for all"
    for connection, size in (("a1", 10), ("a3", 10), ("b1", 20), ("c1", 20), ("d1", 31)):
        answers.drop(connection, size)
    assert answers.hold("a1", 60)
    assert answers.hold("b1", 40)
    assert answers.ended == ["a1", "a2"]


def test_the_peer_with_most_is_refused() -> None:
    answers = Answers()
    for connection in ("a1", "b1", "c1"):
        assert answers.hold(connection, 30)
    assert answers.hold("a1", 1)
    assert not answers.hold("a1", 20)
    assert answers.ended == []
    assert answers.hold("b1", 20), "another one has more"
    assert answers.ended == ["a1"]


def test_who_holds_nothing_may_end_several_others() -> None:
    answers = Answers()
    for peer in "abcde":
        assert answers.hold(f"{peer}1", 20)
    assert answers.hold("f1", 59)
    assert len(answers.ended) == 3


def test_nothing_is_counted_where_all_peers_are_on_one_machine() -> None:
    answers = Answers(are_counted=False)
    assert all(answers.hold("a1", 50) for _ in range(10))
    answers.drop("a1", 50)
    assert answers.ended == []
