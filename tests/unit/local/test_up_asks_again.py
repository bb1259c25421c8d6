"""What `leasehold up` asks coordinators: again while none leads, since the leader may change between two questions."""

from pathlib import Path

import pytest

from leasehold.core.words.messages import ClusterFacts
from leasehold.error_codes import ErrorCode
from leasehold.errors import NotLeader, Refused
from leasehold.ids import ClusterId, Generation, Term
from leasehold.local.etcd import LocalEtcd
from leasehold.local.members import LocalMembers
from leasehold.local.processes import LocalCluster

FACTS = ClusterFacts(cluster_id=ClusterId("c" * 32), generation=Generation(1), term=Term(2), leader=True)


class Waits:
    """Patience that has no end."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def wait(self, what: str, _processes: object) -> None:
        self.said.append(what)


def test_a_question_that_meets_a_change_of_leader_is_asked_again(tmp_path: Path) -> None:
    answers = iter([NotLeader("c2 does not lead"), NotLeader("c3 does not lead"), FACTS])
    waits = Waits()

    def ask() -> ClusterFacts:
        answer = next(answers)
        if isinstance(answer, NotLeader):
            raise answer
        return answer

    assert LocalCluster(tmp_path)._led(ask, ["c1"], waits) == FACTS  # pyright: ignore[reportArgumentType, reportPrivateUsage]
    assert waits.said == [f"a coordinator to lead (c{number} does not lead)" for number in (2, 3)]


def test_that_there_is_a_cluster_already_is_an_answer(tmp_path: Path) -> None:
    def ask() -> ClusterFacts:
        raise Refused("there is one", code=ErrorCode.INITIALISED, hint="use it")

    with pytest.raises(Refused, match="there is one"):
        LocalCluster(tmp_path)._led(ask, ["c1"], Waits())  # pyright: ignore[reportArgumentType, reportPrivateUsage]


def test_a_member_of_the_store_that_has_ended_ends_the_waiting(tmp_path: Path) -> None:
    members = LocalMembers(tmp_path)
    members.draw(LocalEtcd(), 3)

    def ask() -> ClusterFacts:
        raise NotLeader("c1 does not lead")

    with pytest.raises(Refused, match="meta-1 ended") as caught:
        LocalCluster(tmp_path)._led(ask, ["c1"], Waits())  # pyright: ignore[reportArgumentType, reportPrivateUsage]
    assert caught.value.code is ErrorCode.DID_NOT_START
