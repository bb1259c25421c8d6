"""The bytes of the messages are those that etcd's own code makes and reads."""

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.errors import BadMessage
from leasehold.limits.etcd import ETCD_REPEATED_MAX
from leasehold.metastorage.etcd import messages
from leasehold.metastorage.etcd.messages import (
    MOD,
    AuthenticateRequest,
    AuthenticateResponse,
    CompactionRequest,
    Compare,
    DeleteRangeRequest,
    EtcdAnswer,
    EtcdKeyValue,
    EtcdMember,
    EtcdMessage,
    MemberAddRequest,
    MemberAddResponse,
    MemberListResponse,
    MemberRemoveRequest,
    PutRequest,
    RangeRequest,
    RangeResponse,
    RequestOp,
    ResponseHeader,
    StatusResponse,
    TxnRequest,
    TxnResponse,
    WatchCreateRequest,
    WatchRequest,
    WatchResponse,
)
from leasehold.metastorage.etcd.protobuf import ProtobufField, decode, encode, fields

HEADER = ResponseHeader(cluster_id=-2, member_id=7, revision=300)  # 2**64 - 2
HEADER_BYTES = "0a1208feffffffffffffffff01100718ac022004"  # with a term, which is not used

REQUESTS = {
    "0a04612f622f1204612f623018184001": RangeRequest(key=b"a/b/", range_end=b"a/b0", limit=24, keys_only=True),
    "0a0810021a016b30ac020a0710021a016c3000120812060a016b12017612051a030a016c12070a050a016b4001": TxnRequest(
        compare=(
            Compare(target=MOD, key=b"k", mod_revision=300),
            Compare(target=MOD, key=b"l", mod_revision=0),
        ),
        success=(
            RequestOp(request_put=PutRequest(key=b"k", value=b"v")),
            RequestOp(request_delete_range=DeleteRangeRequest(key=b"l")),
            RequestOp(request_range=RangeRequest(key=b"k", keys_only=True)),
        ),
    ),
    "0a0161120162": DeleteRangeRequest(key=b"a", range_end=b"b"),
    "08808080808020": CompactionRequest(revision=1 << 40),
    "0a0c0a05612f622f6318ad024001": WatchRequest(
        create_request=WatchCreateRequest(key=b"a/b/c", start_revision=301, fragment=True)
    ),
    "": EtcdMessage(),
    "0a16687474703a2f2f3132372e302e302e313a3230303032": MemberAddRequest(peer_urls=("http://127.0.0.1:20002",)),
    "08feffffffffffffffff01": MemberRemoveRequest(id=-2),
    "0a096c65617365686f6c64120470617373": AuthenticateRequest(name="leasehold", password="pass"),
}
ANSWERS = [
    (
        "12130a05612f622f31100518ab0220022a036f6e65120f0a05612f622f32100618062001300918012003",
        RangeResponse(
            header=HEADER,
            kvs=(
                EtcdKeyValue(key=b"a/b/1", mod_revision=299, value=b"one"),
                EtcdKeyValue(key=b"a/b/2", mod_revision=6),
            ),
            more=True,
        ),
    ),
    ("10011a1612140a1208feffffffffffffffff01100718ac022004", TxnResponse(header=HEADER, succeeded=True)),
    ("", TxnResponse(header=HEADER)),
    ("100c", EtcdAnswer(header=HEADER)),
    ("", EtcdAnswer(header=HEADER)),
    ("1801", WatchResponse(header=HEADER, created=True)),
    (
        "10ffffffffffffffffff0118012001321d657463647365727665723a207065726d697373696f6e2064656e696564",
        WatchResponse(header=HEADER, created=True, canceled=True, cancel_reason="etcdserver: permission denied"),
    ),
    ("1001200128fa01", WatchResponse(header=HEADER, canceled=True, compact_revision=250)),
    (
        "38015a0a12080a016b18082a01765a09080112050a016b1809",
        WatchResponse(
            header=HEADER,
            fragment=True,
            events=(bytes.fromhex("12080a016b18082a0176"), bytes.fromhex("080112050a016b1809")),
        ),
    ),
    (
        "1206332e362e313418808040200728633004386242196d656d62657249443a3720616c61726d3a4e4f53504143452048802050015a05332e362e306080808080086a00",
        StatusResponse(
            header=HEADER,
            version="3.6.14",
            db_size=1 << 20,
            leader=7,
            errors=("memberID:7 alarm:NOSPACE ",),
            db_size_in_use=4096,
            is_learner=True,
            db_size_quota=2 << 30,
        ),
    ),
    (
        "123d080712026d311a0e687474703a2f2f68313a32333830220e687474703a2f2f68313a323337392215687474703a2f2f3132372e302e302e313a32333739120408082801",
        MemberListResponse(
            header=HEADER,
            members=(
                EtcdMember(
                    id=7,
                    name="m1",
                    peer_urls=("http://h1:2380",),
                    client_urls=("http://h1:2379", "http://127.0.0.1:2379"),
                ),
                EtcdMember(id=8, is_learner=True),
            ),
        ),
    ),
    (
        # The list of all members follows, which is not used.
        "121a08091a16687474703a2f2f3132372e302e302e313a32303030321a020807",
        MemberAddResponse(header=HEADER, member=EtcdMember(id=9, peer_urls=("http://127.0.0.1:20002",))),
    ),
    ("12066162632e3132", AuthenticateResponse(header=HEADER, token="abc.12")),
]
MESSAGES = [one for one in vars(messages).values() if isinstance(one, type) and issubclass(one, EtcdMessage)]


@pytest.mark.parametrize("expected", REQUESTS)
def test_a_request_has_the_bytes_of_etcds_own_code(expected: str) -> None:
    assert encode(REQUESTS[expected]).hex() == expected
    assert decode(type(REQUESTS[expected]), bytes.fromhex(expected)) == REQUESTS[expected]


@pytest.mark.parametrize(("rest", "answer"), ANSWERS)
def test_an_answer_of_etcds_own_code_is_read(rest: str, answer: EtcdAnswer) -> None:
    assert decode(type(answer), bytes.fromhex(HEADER_BYTES + rest)) == answer


def test_every_message_has_its_bytes_here() -> None:
    within = {ResponseHeader, EtcdKeyValue, Compare, RequestOp, PutRequest}
    within |= {EtcdMember, WatchCreateRequest}
    assert {type(one) for one in (*REQUESTS.values(), *(answer for _, answer in ANSWERS))} == {*MESSAGES} - within


def values(field: ProtobufField) -> st.SearchStrategy[Any]:
    if field.is_repeated:
        return st.lists(one(field.kind), max_size=3).map(tuple)
    return st.none() | one(field.kind) if field.in_oneof else one(field.kind)


def one(kind: type) -> st.SearchStrategy[Any]:
    if issubclass(kind, msgspec.Struct):
        return made(kind)
    if kind is int:
        return st.integers(-(1 << 63), (1 << 63) - 1)
    return st.from_type(kind)


def made(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: values(field) for field in fields(kind).values()})


@settings(deadline=None)
@given(data=st.data())
def test_a_message_is_read_as_it_was_written(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(MESSAGES))
    message = data.draw(made(kind))
    blob = encode(message)
    assert decode(kind, blob) == message
    unknown = data.draw(st.sampled_from(["a00601", "a10600000000000000ff", "a20603616263", "a506000000ff"]))
    assert decode(kind, blob + bytes.fromhex(unknown)) == message


@settings(deadline=None)
@given(data=st.data())
def test_garbage_is_a_message_or_a_definite_error(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(MESSAGES))
    blob = bytearray(encode(data.draw(made(kind))))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(blob)))
        blob[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    try:
        found = decode(kind, bytes(blob))
    except BadMessage:
        return
    assert decode(kind, encode(found)) == found


@pytest.mark.parametrize(
    ("blob", "why"),
    [
        ("12", "cut off"),
        ("1280", "cut off"),
        ("12ff", "cut off"),
        ("1202ff", "longer than its message"),
        ("12ffffffffffffffffff01", "longer than its message"),
        ("18ffffffffffffffffff02", "more than 64 bits"),
        ("18ffffffffffffffffffff01", "more than 64 bits"),
        ("1001", "field 2 of RangeResponse has the wire type 0"),
        ("1a00", "field 3 of RangeResponse has the wire type 2"),
        ("1d00000000", "field 3 of RangeResponse has the wire type 5"),
        ("0001", "the number 0"),
        ("8080808010", "the number 536870912"),
        ("1b", "wire type 3"),
        ("1c", "wire type 4"),
        ("1f", "wire type 7"),
        ("1900", "longer than its message"),
        ("12030a0461", "longer than its message"),
        ("1200" * (ETCD_REPEATED_MAX + 1), "more than 4096 elements"),
    ],
)
def test_bytes_that_are_no_message(blob: str, why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        decode(RangeResponse, bytes.fromhex(blob))


def test_a_text_is_utf_8() -> None:
    with pytest.raises(BadMessage, match="UTF-8"):
        decode(AuthenticateResponse, bytes.fromhex("1201ff"))


def test_the_fields_of_a_class_have_numbers_of_their_own() -> None:
    for kind in MESSAGES:
        assert len(fields(kind)) == len(msgspec.structs.fields(kind)), kind


def test_secrets_are_not_shown() -> None:
    for secret in (AuthenticateRequest(name="u", password="hush"), AuthenticateResponse(token="hush")):
        assert "hush" not in repr(secret)


class _Wide(EtcdMessage, frozen=True, kw_only=True):
    far: Annotated[bytes, 3000] = b""
    near: Annotated[bool, 1] = False


def test_fields_are_written_in_the_order_of_their_numbers() -> None:
    assert encode(_Wide(far=b"f", near=True)).hex() == "0801c2bb010166"
