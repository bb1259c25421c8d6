"""Bytes that are not ours are refused, whatever they are; no message can end a process."""

import traceback
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.words import messages
from leasehold.core.words.codec import decode_message, decode_record, decode_request, decode_ticket, encode
from leasehold.core.words.messages import BaseMessage, WhoAreYou
from leasehold.core.words.records import ClusterRecord, Field, UseState
from leasehold.core.words.statements import Literal
from leasehold.errors import Corrupt, Refused
from leasehold.limits.messages import ASKED_MAX, ASKED_VALUES_MAX, MESSAGE_BYTES_MAX
from leasehold.limits.people import LOGIN_CHARACTERS_MAX
from leasehold.limits.statements import COLUMNS_MAX, QUERY_TABLES_MAX
from tests.few import examples


def nested(depth: int) -> bytes:
    """A map with a key we don't know, whose value lies so deep that a decoder would run out of stack."""
    return b"\x82\xa1x" + b"\x91" * depth + b"\xc0" + b"\xa1t" + msgspec.msgpack.encode("who-are-you/1")


@pytest.mark.parametrize("blob", [b"", b"\xc1", b"\x80", nested(3), nested(200_000), b"\x00" * (MESSAGE_BYTES_MAX + 1)])
def test_what_is_not_a_message_is_refused(blob):
    with pytest.raises(Refused) as refused:
        decode_message(blob)
    assert refused.value.code == "BAD_MESSAGE"


def test_what_is_not_the_record_is_corrupt():
    for blob in (b"", nested(200_000), encode(WhoAreYou())):
        with pytest.raises(Corrupt):
            decode_record(ClusterRecord, blob)


@settings(derandomize=True, max_examples=examples(300), deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_decoded(blob):
    try:
        decode_message(blob)
    except Refused as refused:
        assert refused.code == "BAD_MESSAGE"


@pytest.mark.parametrize("decode", [decode_request, partial(decode_request, commit=True), decode_ticket])
def test_an_answer_is_not_decoded_where_a_request_is_expected(decode):
    rows = messages.Rows(columns=(), rows=((None,),) * 10, revision=1)
    assert decode_message(encode(rows)) == rows
    with pytest.raises(Refused, match="rows/1") as caught:
        decode(encode(rows))
    assert caught.value.code == "BAD_MESSAGE"
    assert caught.value.hint


MANY_VIEWS = (1,) * (QUERY_TABLES_MAX + 1)
MANY_VALUES = (Literal("null", ""),) * (ASKED_VALUES_MAX + 1)


def plan(columns=None, **more):
    return messages.PlanScan(cluster_id=None, name="d.t", columns=columns, **more)


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        (plan(("a",) * (COLUMNS_MAX + 1)), "columns"),
        (plan(through=MANY_VIEWS), "through"),
        (plan(where=(messages.Filter(column="a", operator="IN", values=MANY_VALUES),)), "values"),
        (messages.AgreeCutoff(cluster_id="c", table=1, query="q", through=MANY_VIEWS), "through"),
        (messages.DelegateLogin(cluster_id="c", table=1, through=MANY_VIEWS), "through"),
        (messages.PlanQuery(cluster_id=None, names=("",) * (ASKED_MAX + 1)), "names"),
        (messages.Login(cluster_id=None, user="u", password="p" * (LOGIN_CHARACTERS_MAX + 1)), "password"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, BaseMessage) else one,
)
def test_a_list_that_is_too_long_is_not_decoded(asked, where):
    with pytest.raises(Refused, match=where) as caught:
        decode_request(encode(asked))
    assert caught.value.code == "BAD_MESSAGE"


def covering(values, conditions):
    """A commit whose conditions have so many values each."""
    field = Field(id=1, name="a", type="STRING", nullable=True, state=UseState.IN_USE)
    one = messages.FieldFilter(field=field, operator="IN", values=("x",) * values)
    return messages.CommitTransaction(cluster_id="c", transaction="t", segments=(), covers=(one,) * conditions)


def test_conditions_have_a_number_of_values_together_and_the_error_does_not_hold_them():
    most = covering(ASKED_VALUES_MAX // 2, 2)
    assert decode_request(encode(most), commit=True) == most
    with pytest.raises(Refused, match=f"{ASKED_VALUES_MAX + 1} values, over {ASKED_VALUES_MAX}") as refused:
        decode_request(encode(covering(ASKED_VALUES_MAX // 3 + 1, 3)), commit=True)
    assert refused.value.code == "BAD_MESSAGE"
    frames = traceback.walk_tb(refused.value.__traceback__)
    held = [one for frame, _ in frames for one in frame.f_locals.values()]
    assert not any(isinstance(one, messages.CommitTransaction) for one in held if one is not most)
