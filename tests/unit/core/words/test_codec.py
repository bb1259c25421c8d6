"""Bytes that are not ours are refused, whatever they are; no message can end a process."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.core.words.codec import decode_message, decode_record, encode
from leasehold.core.words.messages import WhoAreYou
from leasehold.core.words.records import ClusterRecord
from leasehold.errors import Corrupt, Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
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
