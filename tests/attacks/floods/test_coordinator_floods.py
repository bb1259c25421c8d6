"""Floods of the coordinator's port by strangers and by users without rights."""

import contextlib
import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import grpc
import pytest

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import CommitTransaction, Execute, Login, Message, WhoAreYou
from leasehold.errors import LeaseholdError
from leasehold.ids import ClusterId, StatementId, TransactionId
from leasehold.limits.requests import (
    CALLS_PER_CONNECTION_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_FRAME_BYTES_MAX,
    REQUESTS_UNREAD_MAX,
)
from leasehold.limits.statements import BUCKETS_MAX
from leasehold.wire.requests import frames
from leasehold.wire.rpc import CALL, COMMIT, SESSION, STREAM, read_answer
from tests.attacks.ground import NOBODY, ROOT, TABLE, WRITER, Ground
from tests.attacks.unfinished import unfinished_calls

LONG = pytest.mark.long
pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

LARGE_CALLS: Final = 100
LARGE_BYTES: Final = 15 * 1024 * 1024
CONNECTIONS: Final = 20
ANSWER_S: Final = 120
FAT_SESSIONS: Final = 20
FAT_BYTES: Final = 64 * 1024 * 1024
QUESTIONS: Final = 5_000
UNFINISHED: Final = 1_000
PARSERS: Final = 20
STATEMENTS: Final = 200
VIEWS: Final = 200
SILENT_SESSIONS: Final = 300
RESETS: Final = 1_000
VIEWERS: Final = 60
VIEW_VALUES: Final = 20_000
GUESSERS: Final = 80
GUESSES: Final = 1


@contextlib.contextmanager
def channels(ground: Ground, count: int) -> Generator[list[grpc.Channel]]:
    """Connections of a stranger."""
    made = [ground.channel(ground.coordinator) for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def outcome(call: Callable[[], bytes]) -> str:
    """What came back: the name of gRPC's status, or the code of our error, or OK."""
    try:
        read_answer(call())
    except grpc.RpcError as error:
        return str(error.code().name)  # pyright: ignore[reportAttributeAccessIssue] every raised one is a call too
    except LeaseholdError as error:
        return error.code
    return "OK"


def ended_as(ask: Callable[[], object]) -> str:
    """The code of our error, or OK."""
    try:
        ask()
    except LeaseholdError as error:
        return error.code
    return "OK"


def at_once(calls: list[Callable[[], bytes]], threads: int = 32) -> Counter[str]:
    """Makes all calls from several threads; how many ended how."""
    with ThreadPoolExecutor(threads) as pool:
        return Counter(pool.map(outcome, calls))


def sent_by_many(ground: Ground, method: str, blob: bytes, count: int, *, threads: int = 32) -> Counter[str]:
    """Sends a request in frames so many times, from several connections, while the ground is attacked; how many ended
    how."""
    sent = list(frames(blob))
    with channels(ground, CONNECTIONS) as made, ground.attacked():
        return at_once(
            [
                lambda channel=made[number % CONNECTIONS]: channel.stream_unary(method)(iter(sent), timeout=ANSWER_S)
                for number in range(count)
            ],
            threads,
        )


def statement(characters: int) -> Message:
    return Execute(cluster_id=None, statement=StatementId("0" * 32), text="x" * characters)


def commit(characters: int) -> Message:
    return CommitTransaction(
        cluster_id=ClusterId("c" * characters), transaction=TransactionId("0" * 32), segments=(), login=None
    )


@pytest.mark.parametrize("method", [CALL, pytest.param(STREAM, marks=LONG), pytest.param(COMMIT, marks=LONG)])
def test_large_messages_of_a_stranger(ground: Ground, scale: int, method: str) -> None:
    blob = b"\x00" * LARGE_BYTES
    with channels(ground, CONNECTIONS) as made, ground.attacked():
        calls = [
            lambda channel=made[number % CONNECTIONS]: channel.unary_unary(method)(blob, timeout=ANSWER_S)
            for number in range(LARGE_CALLS * scale)
        ]
        ended = at_once(calls)
    assert set(ended) == {"RESOURCE_EXHAUSTED"}


@pytest.mark.parametrize(
    ("method", "message"),
    [(CALL, statement(REQUEST_BYTES_MAX - 1_000)), (COMMIT, commit(LARGE_BYTES))],
    ids=["statements", "commits"],
)
def test_large_requests_in_frames_of_a_stranger(ground: Ground, scale: int, method: str, message: Message) -> None:
    ended = sent_by_many(ground, method, encode(message), LARGE_CALLS * scale)
    assert set(ended) <= {"BUSY", "UNAUTHENTICATED", "OTHER_CLUSTER", "TOO_SLOW"}


def test_requests_that_never_come_whole(ground: Ground, scale: int) -> None:
    """Each lacks the last byte of a frame. They give way to each other; the last ones are given up by the clock."""
    count = UNFINISHED if scale == 1 else 3 * UNFINISHED
    on_each = min(count // CONNECTIONS, CALLS_PER_CONNECTION_MAX)
    with ground.attacked():
        for _ in range(scale):
            with unfinished_calls(
                ground.connection, ground.coordinator, CALL, REQUEST_FRAME_BYTES_MAX, count, on_each
            ) as keep_going:
                keep_going(REQUESTS_UNREAD_MAX if scale == 1 else 0)


def test_fat_sessions_that_are_never_opened(ground: Ground, scale: int) -> None:
    frame = encode(statement(60_000))

    def fat(channel: grpc.Channel) -> str:
        call = channel.stream_stream(SESSION)((frame for _ in range(FAT_BYTES // len(frame))), timeout=ANSWER_S)
        return outcome(lambda: next(iter(call)))

    with channels(ground, FAT_SESSIONS) as made, ground.attacked(), ThreadPoolExecutor(FAT_SESSIONS) as pool:
        ended = Counter(end for _ in range(scale) for end in pool.map(fat, made))
    assert ended == {"BAD_MESSAGE": FAT_SESSIONS * scale}


def test_sessions_that_say_nothing(ground: Ground, scale: int) -> None:
    """They give way to each other, and the last ones are given up by the clock. With TLS they come from an address of
    their own: one address has CALLS_PER_PEER_MAX calls."""
    count, on_each = SILENT_SESSIONS * scale, CALLS_PER_CONNECTION_MAX - 4
    with (
        ground.attacked(),
        unfinished_calls(ground.connection, ground.coordinator, SESSION, 1, count, on_each) as keep_going,
    ):
        keep_going(0)


@pytest.mark.parametrize("method", [CALL, pytest.param(SESSION, marks=LONG)])
def test_calls_that_are_begun_and_reset(ground: Ground, scale: int, method: str) -> None:
    frame = encode(statement(60_000))
    with channels(ground, CONNECTIONS) as made, ground.attacked():
        for number in range(RESETS * scale):
            made[number % CONNECTIONS].stream_stream(method)(iter([frame])).cancel()


@LONG
def test_large_views_all_at_once(ground: Ground, scale: int) -> None:
    """By a user who may create views. They are over the bound, which is known once they are parsed."""
    values = ", ".join(map(str, range(VIEW_VALUES)))

    def create(number: int) -> str:
        text = f"CREATE OR REPLACE VIEW shop.v{number} AS SELECT a FROM {TABLE} WHERE a IN ({values})"
        with ground.connect(ROOT) as cluster:
            return ended_as(lambda: cluster.sql(text))

    with ground.attacked(), ThreadPoolExecutor(VIEWERS) as pool:
        ended = Counter(pool.map(create, range(VIEWERS * scale)))
    assert set(ended) <= {"BUSY", "SELECT_TOO_LONG"}, ended


def test_large_statements_of_users_without_rights(ground: Ground, scale: int) -> None:
    text = f"DROP TABLE {TABLE} -- {'x ' * 90_000}"

    def ask(_number: int) -> str:
        with ground.connect(NOBODY) as cluster:
            return ended_as(lambda: cluster.sql(text))

    with ground.attacked(), ThreadPoolExecutor(min(60, PARSERS * scale)) as pool:
        ended = Counter(pool.map(ask, range(PARSERS * scale)))
    assert set(ended) <= {"FORBIDDEN", "BUSY"}


def test_large_questions_of_users_without_rights(ground: Ground, scale: int) -> None:
    with ground.connect(ROOT) as root:
        root.sql(f"CREATE TABLE IF NOT EXISTS shop.split (a BIGINT) CLUSTERED BY (a) INTO {BUCKETS_MAX} BUCKETS")
    assert asked_by_nobody(ground, 2 * STATEMENTS * scale, "SHOW BUCKETS OF shop.split") == {"OK"}


@pytest.mark.parametrize("characters", [120, 9_900])
def test_statements_of_many_signs(ground: Ground, scale: int, characters: int) -> None:
    """Of a user without rights. They say nothing, which is known once they are parsed."""
    assert asked_by_nobody(ground, STATEMENTS * scale, "$" * characters) == {"BAD_STATEMENT"}


def test_statements_of_many_conditions(ground: Ground, scale: int) -> None:
    """Of a user without rights. All are too short to count as large."""
    text = f"DELETE FROM {TABLE} WHERE {' AND '.join(['a = 1'] * 40)}"
    assert asked_by_nobody(ground, 4 * STATEMENTS * scale, text) == {"FORBIDDEN"}


def test_large_statements_that_are_explained(ground: Ground, scale: int) -> None:
    text = f"EXPLAIN CREATE TABLE shop.explained (a BIGINT) CLUSTERED BY (a) INTO {BUCKETS_MAX} BUCKETS"
    ended = asked_at_once(ground, STATEMENTS // 2 * scale, text, who=ROOT)
    assert "OK" in ended
    assert ended <= {"OK", "BUSY"}


def test_drops_of_what_many_views_read_are_explained(ground: Ground, scale: int) -> None:
    with ground.connect(ROOT) as root:
        root.sql("CREATE DATABASE IF NOT EXISTS seen")
        root.sql("CREATE TABLE IF NOT EXISTS seen.t (a BIGINT, b STRING)")
        for number in range(VIEWS):
            root.sql(f"CREATE OR REPLACE VIEW seen.v{number} AS SELECT a, b FROM seen.t")
    ended = asked_at_once(ground, STATEMENTS * scale, "EXPLAIN DROP TABLE seen.t CASCADE", who=ROOT)
    assert "OK" in ended
    assert ended <= {"OK", "BUSY"}


def asked_by_nobody(ground: Ground, count: int, text: str) -> set[str]:
    """How so many statements of a user without rights end that are sent at once."""
    return asked_at_once(ground, count, text, who=NOBODY)


def asked_at_once(ground: Ground, count: int, text: str, *, who: tuple[str, str]) -> set[str]:
    """How so many statements of a user end."""
    with ground.connect(who) as user:
        user.sql("SHOW DATABASES")
        asks = partial(Execute, cluster_id=None, login=user.token)
        # No two are the same, so each has to be parsed.
        blobs = [
            encode(asks(statement=StatementId(secrets.token_hex(16)), text=f"{text} -- {number}"))
            for number in range(count)
        ]
        with channels(ground, CONNECTIONS) as made, ground.attacked():
            asked = [
                one.unary_unary(CALL).future(blob, timeout=ANSWER_S)
                for one, blob in zip(itertools.cycle(made), blobs, strict=False)
            ]
            ended = {outcome(one.result) for one in asked}
    return ended


@pytest.mark.parametrize("of_a_user", [pytest.param(False, marks=LONG), True], ids=["made up", "of a user"])
def test_guessed_passwords_shut_no_other_user_out(ground: Ground, scale: int, of_a_user: bool) -> None:
    guessers = GUESSERS // 2 if of_a_user and scale == 1 else GUESSERS

    def guess_on(guesser: int) -> Counter[str]:
        ask = made[guesser % CONNECTIONS].unary_unary(CALL)
        ended: Counter[str] = Counter()
        for guess in range(GUESSES * scale):
            user = WRITER[0] if of_a_user else f"n{guesser}_{guess}"
            blob = encode(Login(cluster_id=None, user=user, password="a guess"))
            ended[outcome(partial(ask, blob, timeout=ANSWER_S))] += 1
        return ended

    with channels(ground, CONNECTIONS) as made, ground.attacked(), ThreadPoolExecutor(guessers) as pool:
        ended = sum(pool.map(guess_on, range(guessers)), Counter[str]())
    assert set(ended) <= {"WRONG_PASSWORD", "BUSY"}
    assert ended["WRONG_PASSWORD"] > 0


@pytest.mark.parametrize("connections", [pytest.param(1, marks=LONG), 100])
def test_questions_all_at_once_are_all_answered(ground: Ground, scale: int, connections: int) -> None:
    blob = encode(WhoAreYou())
    with channels(ground, connections) as made, ground.attacked():
        for _ in range(scale):
            asked = [
                made[number % connections].unary_unary(CALL).future(blob, timeout=ANSWER_S)
                for number in range(QUESTIONS)
            ]
            assert Counter(outcome(one.result) for one in asked) == {"OK": QUESTIONS}
