"""Golden bytes: what was written under a tag is read, and written again, byte for byte."""

import pytest

from leasehold.core.words.codec import decode_message, decode_record, encode
from leasehold.core.words.messages import Grant
from leasehold.core.words.records import ClusterRecord, NodeRecord, Record
from leasehold.errors import Corrupt, Refused
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from tests.golden.examples import UNIONS, add_missing, load, members, variants

GOLDEN = load()
HOW = "run `python -m tests.golden.examples` to add it; a changed shape needs a new tag, never a new golden entry"
ENTRIES = [
    pytest.param(group, tag, name, id=f"{tag}-{name}")
    for group, tags in GOLDEN.items()
    for tag, texts in tags.items()
    for name in texts
]


def decode(group, kind, blob):
    return decode_record(kind, blob) if group == "records" else decode_message(blob)


@pytest.mark.parametrize(("group", "tag", "name"), ENTRIES)
def test_golden_bytes_are_read_and_written(group, tag, name):
    blob = bytes.fromhex(GOLDEN[group][tag][name])
    kind = members(UNIONS[group]).get(tag)
    assert kind is not None, f"{tag} was written once and can't be read any more"
    expected = variants(kind)[name]
    assert decode(group, kind, blob) == expected, HOW
    assert encode(expected) == blob, HOW


@pytest.mark.parametrize("group", UNIONS)
def test_every_member_has_golden_bytes(group):
    missing = sorted(set(members(UNIONS[group])) - set(GOLDEN[group]))
    assert not missing, f"{missing} have no golden bytes: {HOW}"
    assert all(set(texts) == {"full", "least"} for texts in GOLDEN[group].values())


def test_adding_never_overwrites():
    golden = load()
    tag = "node/1"
    golden["records"][tag] = {"full": "00"}
    del golden["messages"]["grant/1"]
    assert add_missing(golden) == ["grant/1"]
    assert golden["records"][tag] == {"full": "00"}
    assert golden["messages"]["grant/1"] == GOLDEN["messages"]["grant/1"]


@pytest.mark.parametrize(("group", "tag", "name"), [entry for entry in ENTRIES if entry.values[2] == "full"])
def test_half_of_the_bytes_is_an_error_of_ours(group, tag, name):
    blob = bytes.fromhex(GOLDEN[group][tag][name])
    expected = Corrupt if group == "records" else Refused
    for part in (blob[: len(blob) // 2], blob[:-1], b"", b"\xc1"):
        with pytest.raises(expected):
            decode(group, Record, part)


def test_a_record_of_another_kind_is_corrupt():
    blob = encode(variants(ClusterRecord)["full"])
    assert decode_record(ClusterRecord, blob) == variants(ClusterRecord)["full"]
    with pytest.raises(Corrupt, match="ClusterRecord was found instead of a NodeRecord"):
        decode_record(NodeRecord, blob)


def test_unknown_tags_and_fields_are_refused():
    blob = encode(variants(Grant)["least"])
    assert decode_message(blob) == variants(Grant)["least"]
    with pytest.raises(Refused):
        decode_message(blob.replace(b"grant/1", b"grant/9"))
    with pytest.raises(Refused):
        decode_message(blob.replace(b"floor", b"flour"))
    with pytest.raises(Refused, match="bytes, over"):
        decode_message(bytes(MESSAGE_BYTES_MAX + 1))
