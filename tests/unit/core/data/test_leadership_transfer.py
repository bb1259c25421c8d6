"""How a client asks for another leader, in virtual time: what is checked before, and what it says in the end."""

from leasehold.core.data.leadership_transfer import NewLeader, transfer_leadership
from leasehold.core.words.messages import ClusterFacts, LeadershipEnds, Message, TransferLeadership
from leasehold.error_codes import ErrorCode
from leasehold.errors import Indefinite, NotLeader, OutcomeUnknown, Refused, Unreachable
from leasehold.ids import Generation, Term
from tests.unit.core.data.coordinator_words import CLUSTER, SECONDS, Answer, ask

ALL = ("a:1", "b:1", "c:1")


class Three:
    """Coordinators of which `a:1` leads term 4 until it is asked to hand over; then `next_leader` leads term 5."""

    def __init__(self, next_leader: str = "b:1", silent: tuple[str, ...] = ()) -> None:
        self.leader, self.term = "a:1", Term(4)
        self.transfers: list[TransferLeadership] = []
        self.answers: list[Answer] = []
        """What the next requests to hand over are answered with, though they are done."""
        self._next_leader = next_leader
        self._silent = silent

    def __call__(self, address: str, request: Message) -> Answer:
        if address in self._silent:
            return Unreachable("gone")
        if address != self.leader:
            return NotLeader("it stands by", leader=self.leader, term=self.term)
        if not isinstance(request, TransferLeadership):
            return ClusterFacts(cluster_id=CLUSTER, generation=Generation(1), term=self.term, leader=True)
        self.transfers.append(request)
        if request.term == self.term:
            self.leader, self.term = self._next_leader, Term(self.term + 1)
        return self.answers.pop(0) if self.answers else LeadershipEnds()


def run(three: Three, to: str | None = None, addresses: tuple[str, ...] = ALL) -> object:
    return ask(three, lambda client: transfer_leadership(client, to, SECONDS), addresses=addresses)[1]


def test_another_one_leads_in_the_end() -> None:
    three = Three()
    end = run(three)
    assert isinstance(end, NewLeader)
    assert (end.address, end.term) == ("b:1", 5)
    assert 0 < end.elapsed_ns < SECONDS.for_ns
    assert three.transfers == [TransferLeadership(cluster_id=CLUSTER, term=Term(4))]


def test_the_leader_is_told_whom_to_name() -> None:
    three = Three("c:1", silent=("b:1",))
    end = run(three, "c:1")
    assert isinstance(end, NewLeader)
    assert end.address == "c:1"
    assert [one.successor for one in three.transfers] == ["c:1"]


def test_a_transfer_whose_answer_is_lost_is_done_once() -> None:
    three = Three()
    three.answers = [Indefinite("perhaps")]
    end = run(three)
    assert isinstance(end, NewLeader)
    assert (end.address, end.term) == ("b:1", 5), "the next leader does nothing for the term that has ended"
    assert [one.term for one in three.transfers] == [4, 4]


def test_nothing_is_asked_for_where_nobody_could_take_over() -> None:
    cases: list[tuple[str | None, tuple[str, ...], ErrorCode]] = [
        ("a:1", (), ErrorCode.LEADS_ALREADY),
        ("b:1", ("b:1",), ErrorCode.UNREACHABLE),
        (None, ("b:1", "c:1"), ErrorCode.NO_SUCCESSOR),
        ("b:1", ("a:1", "b:1", "c:1"), ErrorCode.UNREACHABLE),
    ]
    for to, silent, code in cases:
        three = Three(silent=silent)
        end = run(three, to)
        assert isinstance(end, Refused | Unreachable)
        assert (end.code, three.transfers) == (code, [])
    three = Three()
    end = run(three, addresses=("a:1",))
    assert isinstance(end, Refused)
    assert (end.code, three.transfers) == (ErrorCode.NO_SUCCESSOR, [])


def test_a_leadership_that_went_elsewhere_is_not_what_was_asked_for() -> None:
    for new, text in (("a:1", "a:1 leads again, in term 5"), ("c:1", "c:1 leads now, in term 5: b:1 has not")):
        end = run(Three(new), "b:1")
        assert isinstance(end, Refused)
        assert end.code == ErrorCode.NO_SUCCESSOR
        assert end.text.startswith(text)


def test_a_leader_that_does_not_answer_may_have_handed_over() -> None:
    three = Three()
    three.answers = [Indefinite("perhaps")] * 1_000
    assert isinstance(run(three), OutcomeUnknown)
