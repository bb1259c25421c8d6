"""Messages to a coordinator that nobody of ours sends: a definite refusal, nothing changed, others served."""

import asyncio
from typing import Any, get_args

import grpc
import msgspec
import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import (
    AskStatus,
    Grant,
    Initialise,
    Message,
    RecoveryAccepted,
    RecoveryFinished,
    RenewalRefused,
    Request,
    SegmentsHeld,
    SessionOpened,
    Surrender,
    TableCleaned,
    Watched,
    WatchFailed,
    WhoAreYou,
)
from leasehold.errors import Definite, LeaseholdError
from leasehold.ids import (
    BucketNumber,
    ClusterId,
    Incarnation,
    NodeId,
    ObjectId,
    RequestNumber,
    Revision,
    Sequence,
    Session,
    Term,
)
from leasehold.limits.messages import MESSAGE_BYTES_MAX
from leasehold.wire.rpc import CALL, SESSION, STREAM, read_answer
from tests.golden.examples import example
from tests.scenarios.bad_words import (
    ANOTHER,
    GARBLED,
    OTHER,
    OWN,
    TRUNCATED,
    Ground,
    answer_to,
    ground,
    opening,
    raw,
    renewal,
)
from tests.stored import stored_catalog

# ---------------------------------------------------------------- calls


@pytest.mark.parametrize("method", [CALL, STREAM])
async def test_garbled_bytes_are_refused_on_every_call(method: str) -> None:
    async with ground() as made:
        before = made.state()
        for what, blob in GARBLED.items():
            refused = await answer_to(made, method, blob)
            assert isinstance(refused, Definite), what
            assert refused.code == "BAD_MESSAGE", what
        for blob in TRUNCATED:
            assert (await answer_to(made, method, blob)).code == "BAD_MESSAGE"
        assert made.state() == before
        await made.still_serves()


@pytest.mark.parametrize("method", [CALL, STREAM])
async def test_an_oversized_message_gets_no_further_than_the_transport(method: str) -> None:
    async with ground() as made:
        before = made.state()
        blob = b"\x00" * (MESSAGE_BYTES_MAX + 1)
        async with raw(made) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                if method == CALL:
                    await channel.unary_unary(CALL)(blob, timeout=10)
                else:
                    async for _ in channel.unary_stream(STREAM)(blob, timeout=10):
                        pass
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert made.state() == before
        await made.still_serves()


async def test_I11_messages_of_another_cluster_and_messages_that_are_no_requests_are_refused() -> None:
    """Every message there is, in the place of a question: those that ask nothing, and those of another cluster."""
    async with ground() as made:
        before, codes = made.state(), dict[str, str]()
        for kind in get_args(Message):
            for full in (True, False):
                message = example(kind, full=full)
                if isinstance(message, Initialise):
                    continue  # it has a test of its own
                if hasattr(message, "cluster_id"):
                    message = msgspec.structs.replace(message, cluster_id=OTHER)
                try:
                    await made.call(message)
                except Definite as error:
                    codes[kind.__name__] = error.code
        assert made.state() == before
        asks = {"WhoAreYou", "AskStatus", "AskReceipts"}
        assert set(codes) == {kind.__name__ for kind in get_args(Message)} - asks - {"Initialise"}
        another = {kind.__name__ for kind in get_args(Request) if "cluster_id" in kind.__struct_fields__}
        assert {codes[name] for name in another - {"Initialise"}} == {"OTHER_CLUSTER"}
        told = codes.pop("Failure")
        assert told
        assert {code for name, code in codes.items() if name not in another} == {"BAD_MESSAGE"}
        await made.still_serves()


async def test_a_second_cluster_id_is_refused() -> None:
    async with ground() as made:
        before = made.state()
        for cluster_id, code in ((OTHER, "INITIALISED"), (ClusterId("x"), "BAD_CLUSTER_ID"), ("", "BAD_CLUSTER_ID")):
            with pytest.raises(Definite) as caught:
                await made.call(Initialise(cluster_id=ClusterId(cluster_id)))
            assert caught.value.code == code
        assert made.state() == before
        await made.still_serves()


# ---------------------------------------------------------------- sessions


async def refused_session(made: Ground, *messages: Message) -> LeaseholdError:
    """The error that ends a session after these messages."""
    connection = made.transport.connect(made.address)
    duplex = await connection.session()
    try:
        with pytest.raises(LeaseholdError) as caught:
            for message in messages:
                await duplex.send(message)
            while await duplex.receive() is not None:
                pass
        return caught.value
    finally:
        await duplex.close()
        await connection.close()


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"cluster_id": OTHER}, "OTHER_CLUSTER"),
        ({"incarnation": Incarnation(1)}, "SUPERSEDED"),
        ({"incarnation": Incarnation(3)}, "NOT_LEADER"),
        ({"incarnation": Incarnation(-1)}, "SUPERSEDED"),
        ({"session": ANOTHER}, "SUPERSEDED"),
        ({"session": Session("x" * 50_000)}, "SUPERSEDED"),
        ({"node": NodeId(2)}, "NOT_LEADER"),
        ({"node": NodeId(99)}, "NOT_LEADER"),
        ({"node": NodeId(-1)}, "NOT_LEADER"),
        ({"watch_from": Revision(2**40)}, "AHEAD_OF_CLUSTER"),
    ],
)
async def test_a_session_begins_with_who_speaks_or_not_at_all(other: dict[str, object], code: str) -> None:
    async with ground() as made:
        before = made.state()
        refused = await refused_session(made, opening(1, **other))
        assert isinstance(refused, Definite)
        assert refused.code == code
        assert made.state() == before
        await made.still_serves()


async def test_a_session_that_begins_with_anything_else_is_refused() -> None:
    async with ground() as made:
        before = made.state()
        for message in (WhoAreYou(), renewal(), Surrender(node=NodeId(1), incarnation=Incarnation(2), session=OWN)):
            assert (await refused_session(made, message)).code == "BAD_MESSAGE"
        assert made.state() == before
        await made.still_serves()


SPEAKERS: list[dict[str, Any]] = [
    {"node": NodeId(2), "incarnation": Incarnation(1), "session": ANOTHER},
    {"node": NodeId(2)},
    {"incarnation": Incarnation(1)},
    {"incarnation": Incarnation(3)},
    {"session": ANOTHER},
]


@pytest.mark.parametrize("other", SPEAKERS, ids=["another node", "its number", "older", "future", "session"])
async def test_nobody_speaks_for_another_on_his_session(other: dict[str, Any]) -> None:
    """INV-ID-2: another node, an older or a future incarnation, another session: of any kind of message."""
    own = {"node": NodeId(1), "incarnation": Incarnation(2), "session": OWN}
    spoken: list[Message] = [
        renewal(**other),
        Surrender(**{**own, **other}),
        SegmentsHeld(**{**own, **other}, table=ObjectId(1), bucket=BucketNumber(0), segments=()),
        TableCleaned(**{**own, **other}, table=ObjectId(1)),
    ]
    async with ground() as made:
        before = made.state()
        for message in spoken:
            assert (await refused_session(made, opening(1), message)).code == "BAD_MESSAGE"
        assert made.state() == before
        await made.still_serves()


async def test_what_does_not_belong_on_a_session_ends_it() -> None:
    """Grants and refusals above all: they travel the other way."""
    async with ground() as made:
        before = made.state()
        grant = Grant(request=RequestNumber(1), term=Term(9), sequence=Sequence(9), duration_ns=1, floor=Revision(0))
        refusal = RenewalRefused(request=RequestNumber(1), code="SUPERSEDED", text="x")
        for message in (opening(1), grant, refusal, WhoAreYou(), AskStatus()):
            assert (await refused_session(made, opening(1), message)).code == "BAD_MESSAGE"
        assert made.state() == before
        await made.still_serves()


@pytest.mark.parametrize("watch_from", [-(2**62), -1, 0])
async def test_a_watch_from_before_all_time_fails_and_says_from_where_it_could(watch_from: int) -> None:
    async with ground() as made:
        before = made.state()
        connection = made.transport.connect(made.address)
        duplex = await connection.session()
        await duplex.send(opening(1, watch_from=Revision(watch_from)))
        assert isinstance(await duplex.receive(), SessionOpened)
        failed = await duplex.receive()
        assert isinstance(failed, WatchFailed)
        assert (failed.code, failed.minimum) == ("COMPACTED", 1)
        await duplex.close()
        await connection.close()
        assert made.state() == before
        await made.still_serves()


@pytest.mark.parametrize("opened", [False, True])
async def test_garbled_bytes_are_refused_and_end_their_session_and_no_other(opened: bool) -> None:
    async with ground() as made:
        other = made.transport.connect(made.address)
        lasting = await other.session()
        await lasting.send(opening(2, session=ANOTHER, incarnation=1))
        opened_for = await lasting.receive()
        assert isinstance(opened_for, SessionOpened)
        speaker = {"node": NodeId(2), "incarnation": Incarnation(1), "session": ANOTHER}
        await lasting.send(RecoveryFinished(**speaker, applied=opened_for.latest))
        while not isinstance(await lasting.receive(), RecoveryAccepted):
            pass
        before = made.state()
        for what, blob in [*GARBLED.items(), ("truncated", TRUNCATED[-1])]:
            async with raw(made) as channel:
                call = channel.stream_stream(SESSION)()
                if opened:
                    await call.write(encode(opening(1)))
                    assert isinstance(read_answer(await call.read()), SessionOpened)
                await call.write(blob)
                refused: Definite | None = None
                async with asyncio.timeout(10):
                    while (answer := await call.read()) is not grpc.aio.EOF and answer != b"":  # pyright: ignore[reportAttributeAccessIssue]
                        try:
                            assert isinstance(read_answer(answer), Watched), what
                        except Definite as error:
                            refused = error
                assert refused is not None, what
                assert refused.code == "BAD_MESSAGE", what
        assert made.state() == before
        # The other node has noticed nothing: the same session still gets its grants.
        sequence = before[2]
        view = stored_catalog(made.storage.store)
        await lasting.send(renewal(**speaker, applied=view.revision, lineage=view.lineage))
        while not isinstance(answer := await lasting.receive(), Grant | RenewalRefused):
            assert isinstance(answer, Watched)
        assert isinstance(answer, Grant), answer
        assert answer.sequence == sequence + 1  # pyright: ignore[reportOperatorIssue]
        await lasting.close()
        await other.close()
        await made.still_serves()
