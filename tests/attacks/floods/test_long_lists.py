"""Messages of few bytes that take much memory or many steps once they are decoded; and logins renewed all the time."""

import secrets
from collections import Counter
from collections.abc import Callable

import pytest

from leasehold.client.cluster import Cluster
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import (
    AgreeCutoff,
    CommitTransaction,
    DelegateLogin,
    FieldFilter,
    Message,
    PlanScan,
    RenewLogins,
    Replaced,
    Rows,
)
from leasehold.core.words.records import Field, UseState
from leasehold.ids import (
    ApplicationSecret,
    BucketNumber,
    ClusterId,
    FieldId,
    ObjectId,
    Revision,
    SegmentId,
    TransactionId,
)
from leasehold.limits.people import LOGINS_PER_USER_MAX
from leasehold.limits.requests import REQUEST_BYTES_MAX, REQUEST_FRAME_BYTES_MAX
from leasehold.limits.statements import FILTERS_MAX, REPLACED_VALUES_MAX
from leasehold.wire.rpc import CALL, COMMIT
from tests.attacks.floods.test_coordinator_floods import ANSWER_S, CONNECTIONS, at_once, channels, sent_by_many
from tests.attacks.floods.tickets import logged_in
from tests.attacks.ground import NOBODY, READER, ROOT, TABLE, Ground

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

REPLACED = "shop.replaced"
REPLACER = ("replacer", "may replace rows")
CALLS = 40
COMMITS = 512
COMMIT_BYTES = 15 * 1024 * 1024
LOGINS = LOGINS_PER_USER_MAX
RENEWALS = 300


def rows(size: int) -> bytes:
    """An answer with rows of one NULL each, which no server is asked."""
    return encode(Rows(columns=("a",), rows=((None,),) * (size // 2 - 100), revision=Revision(1)))


def covers(conditions: int, *values: str) -> bytes:
    """A commit whose conditions have these values."""
    field = Field(id=FieldId(1), name="a", type="STRING", nullable=True, state=UseState.IN_USE)
    return encode(
        CommitTransaction(
            cluster_id=ClusterId("c"),
            transaction=TransactionId("0" * 32),
            segments=(),
            covers=(FieldFilter(field=field, operator="IN", values=values),) * conditions,
        )
    )


def short_values() -> bytes:
    """Each takes 50 bytes in memory."""
    return covers(FILTERS_MAX, *(f"{one % 100:02d}" for one in range(REPLACED_VALUES_MAX)))


def replaces(size: int) -> bytes:
    """A commit that replaces as many segments as its bytes can name."""
    one = Replaced(bucket=BucketNumber(300), segment=SegmentId("a"))
    return encode(
        CommitTransaction(
            cluster_id=ClusterId("c"),
            transaction=TransactionId("0" * 32),
            segments=(),
            replaces=(one,) * (size // len(encode(one)) - 100),
        )
    )


def test_commits_with_many_short_values_that_wait(ground: Ground, scale: int) -> None:
    """By a user who may replace the rows. Each comes in one frame and has to be looked at, one after the other."""
    with ground.connect(ROOT) as root:
        for text in (
            f"CREATE TABLE IF NOT EXISTS {REPLACED} (b STRING)",
            f"CREATE USER IF NOT EXISTS {REPLACER[0]} PASSWORD '{REPLACER[1]}'",
            f"GRANT SELECT, INSERT, DROP ON TABLE {REPLACED} TO {REPLACER[0]}",
        ):
            root.sql(text)
    with ground.connect(REPLACER) as cluster:
        cluster.sql(f"INSERT INTO {REPLACED} VALUES ('00')")
        facts, transaction = cluster.facts(REPLACED), cluster.new_transaction()
        cluster.open_transaction(facts, transaction)
        values = tuple(f"{one % 100:02d}" for one in range(REPLACED_VALUES_MAX))
        blob = encode(
            CommitTransaction(
                cluster_id=facts.cluster_id,
                transaction=transaction,
                login=logged_in(cluster),
                segments=(),
                covers=(FieldFilter(field=facts.fields[0], operator="IN", values=values),),
            )
        )
        assert len(blob) <= REQUEST_FRAME_BYTES_MAX
        ended = sent_by_many(ground, COMMIT, blob, COMMITS * scale, threads=COMMITS)
    assert set(ended) <= {"CONFLICT", "BUSY", "TOO_SLOW"}, ended
    assert ended["CONFLICT"]


def check_refused(ended: Counter[str]) -> None:
    assert set(ended) <= {"BAD_MESSAGE", "BUSY", "TOO_SLOW", "RESOURCE_EXHAUSTED"}
    assert ended["BAD_MESSAGE"]


@pytest.mark.parametrize(
    ("method", "made"),
    [
        (CALL, lambda: rows(REQUEST_BYTES_MAX)),
        (COMMIT, lambda: rows(COMMIT_BYTES)),
        (COMMIT, lambda: replaces(COMMIT_BYTES)),
        (COMMIT, short_values),
        pytest.param(COMMIT, lambda: covers(1, *("",) * (COMMIT_BYTES - 1_000)), marks=pytest.mark.long),
    ],
    ids=["an answer", "an answer as a commit", "segments of a commit", "values of a commit", "conditions of a commit"],
)
def test_messages_that_take_far_more_memory_than_their_bytes(
    ground: Ground, scale: int, method: str, made: Callable[[], bytes]
) -> None:
    check_refused(sent_by_many(ground, method, made(), CALLS * scale))


def plan(cluster: Cluster) -> Message:
    return PlanScan(cluster_id=None, name=TABLE, columns=("a",) * 2_000_000, login=logged_in(cluster))


def cutoff(cluster: Cluster) -> Message:
    known = cluster.whoami().cluster_id
    through = (ObjectId(1),) * 4_000_000
    return AgreeCutoff(cluster_id=known, table=ObjectId(999), query="0" * 32, through=through, login=logged_in(cluster))


@pytest.mark.parametrize(("who", "made"), [(READER, plan), (NOBODY, cutoff)], ids=["columns", "views"])
def test_requests_with_millions_of_words(
    ground: Ground, scale: int, who: tuple[str, str], made: Callable[[Cluster], Message]
) -> None:
    with ground.connect(who) as cluster:
        blob = encode(made(cluster))
    check_refused(sent_by_many(ground, CALL, blob, CALLS * scale))


def test_an_application_that_renews_many_logins_all_the_time(ground: Ground, scale: int) -> None:
    secret = ApplicationSecret(secrets.token_hex(16))
    with ground.connect(READER) as cluster, channels(ground, CONNECTIONS) as several:
        facts, login = cluster.facts(TABLE), logged_in(cluster)
        asked = encode(
            DelegateLogin(cluster_id=facts.cluster_id, table=facts.table, login=login, application=hash_secret(secret))
        )
        renewal = encode(RenewLogins(cluster_id=facts.cluster_id, application=secret))

        def many(blob: bytes, count: int) -> set[str]:
            calls = [
                lambda channel=several[number % CONNECTIONS]: channel.unary_unary(CALL)(blob, timeout=ANSWER_S)
                for number in range(count)
            ]
            return set(at_once(calls))

        assert "OK" in many(asked, LOGINS)
        with ground.attacked():
            assert "OK" in many(renewal, RENEWALS * scale)
