"""Errors keep their class, code, text and hint on the way, and are never more definite than they were."""

import pytest

from leasehold import errors
from leasehold.core.words.codec import decode_message, encode
from leasehold.core.words.messages import Failure
from leasehold.error_codes import ErrorCode
from leasehold.errors import Definite, Indefinite, LeaseholdError, NotLeader, OutcomeUnknown, Refused, Unreachable
from leasehold.limits.messages import FAILURE_CHARACTERS_MAX
from leasehold.wire.failures import from_failure, to_failure

CLASSES = [
    one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, LeaseholdError) and one not in (LeaseholdError, Definite, Indefinite)
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_comes_back_as_itself(kind: type[LeaseholdError]) -> None:
    failure = decode_message(encode(to_failure(kind("what happened", hint="what next"))))
    assert isinstance(failure, Failure)
    error = from_failure(failure)
    assert type(error) is kind
    assert (error.text, error.hint, error.code) == ("what happened", "what next", kind.default_code)
    assert error.exit_code == kind.exit_code


@pytest.mark.parametrize(("definite", "kind"), [(True, Refused), (False, Indefinite)])
def test_an_unknown_code_falls_back_by_the_flag(definite: bool, kind: type[LeaseholdError]) -> None:
    error = from_failure(Failure(code="FROM_THE_FUTURE", text="t", hint="h", definite=definite))
    assert type(error) is kind
    assert error.code == "FROM_THE_FUTURE"


def test_a_code_that_disagrees_with_its_flag_is_believed_less_than_the_flag() -> None:
    assert type(from_failure(Failure(code="FENCED", text="t", hint="", definite=False))) is Indefinite
    assert type(from_failure(Failure(code="UNREACHABLE", text="t", hint="", definite=True))) is Refused


def test_the_bare_codes_mean_the_classes_that_carry_them() -> None:
    assert type(from_failure(to_failure(Refused("t")))) is Refused
    assert type(from_failure(to_failure(OutcomeUnknown("t")))) is OutcomeUnknown


def test_an_error_that_is_neither_is_indefinite() -> None:
    assert to_failure(LeaseholdError("t")).definite is False


def test_texts_are_cut() -> None:
    failure = to_failure(Unreachable("x" * 1_000_000, hint="y" * 1_000_000))
    assert len(failure.text) == len(failure.hint) == FAILURE_CHARACTERS_MAX


def test_texts_that_their_sender_has_not_cut_are_cut() -> None:
    """Each process that asked a hostile one would log and remember them."""
    long = "x" * 1_000_000
    for code in (long, ErrorCode.NOT_LEADER):
        error = from_failure(Failure(code=code, text=long, hint=long, definite=True, leader=long, cause=long))
        assert len(error.text) == len(error.hint) == FAILURE_CHARACTERS_MAX
        assert len(error.code) <= FAILURE_CHARACTERS_MAX
        if isinstance(error, NotLeader):
            assert error.cause is not None
            assert len(error.leader) == len(error.cause) == FAILURE_CHARACTERS_MAX


def test_the_leader_that_a_coordinator_names_travels_with_its_term() -> None:
    error = from_failure(to_failure(NotLeader("t", leader="127.0.0.1:7000", term=7)))
    assert isinstance(error, NotLeader)
    assert (error.leader, error.term) == ("127.0.0.1:7000", 7)
    assert error.cause is None
    error = from_failure(to_failure(NotLeader("t", cause=ErrorCode.NO_QUORUM)))
    assert isinstance(error, NotLeader)
    assert (error.code, error.cause) == (ErrorCode.NOT_LEADER, ErrorCode.NO_QUORUM)
    assert encode(to_failure(NotLeader("t"))) == encode(Failure(code="NOT_LEADER", text="t", hint="", definite=True))
