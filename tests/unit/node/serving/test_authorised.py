"""Rights at a node: decided on the guarded view of each batch, and of each step of an append."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from pyarrow import flight

from leasehold.core.access.callers import Caller, CallerRole
from leasehold.core.catalog.plan import put
from leasehold.core.data import requests
from leasehold.core.data.write_access import Peer
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.messages import FlightCaller, ForwardAdmitted, RowsEnd, StagedSegment
from leasehold.core.words.operations import Change
from leasehold.core.words.records import (
    GrantRecord,
    LoginRecord,
    PrincipalKind,
    PrincipalRecord,
    Right,
    UseState,
    ViewRecord,
)
from leasehold.core.words.statements import Revoke
from leasehold.errors import Forbidden, LeaseholdError
from leasehold.ids import Incarnation, LoginToken, NodeId, ObjectId, PrincipalId, Revision, Session
from leasehold.node.agent.published import Published
from leasehold.node.disk.disk_port import fetch_segment
from leasehold.sql.parse import parse
from leasehold.storage.schema import arrow_schema
from leasehold.wire.flight import calling, expect, ticket
from tests.unit.node.cluster import CLUSTER, Cluster, cluster, rows
from tests.unit.node.serving.stream_words import Stream, files_of, forward_ticket, until_gone, write_ticket
from tests.unit.node.serving.test_forwards import forwarded
from tests.unit.node.serving.test_scans import append, read, refused, segment_of

USER, ROLE = PrincipalId(100), PrincipalId(101)
VIEW = ObjectId(50)
TOKEN = LoginToken("1" * 32)
LOGIN = hash_secret(TOKEN)


def principal(number: PrincipalId, **fields: object) -> Change:
    kind = PrincipalKind.USER if number == USER else PrincipalKind.ROLE
    whole = PrincipalRecord(id=number, name=kind.value, kind=kind, state=UseState.IN_USE, password_hash=None, roles=())
    return put(keys.principal(number), msgspec.structs.replace(whole, **fields))


def right(made: Cluster, *rights: Right, leaving: tuple[Right, ...] = ()) -> Change:
    record = GrantRecord(object=made.table.id, principal=USER, rights=rights, leaving=leaving)
    return put(keys.grant(made.table.id, USER), record)


def settle(made: Cluster, *more: Change) -> None:
    """A user without rights who has logged in, a role, and what else."""
    login = put(keys.login(LOGIN), LoginRecord(token_hash=LOGIN, user=USER, order=1))
    made.change([principal(USER), principal(ROLE), login, *more])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    """2,500 rows in one segment on two nodes, served in batches of 1,000."""
    with cluster(tmp_path) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"))
        append(made, rows(0, 2500))
        yield made


def test_where_there_are_no_users_a_ticket_needs_no_login(pair: Cluster) -> None:
    assert len(read(pair.node(1), pair.read_ticket(segment_of(pair)))) == 3
    assert len(read(pair.node(1), pair.read_ticket(segment_of(pair), login=TOKEN))) == 3


@pytest.mark.parametrize("login", [None, LoginToken("2" * 32)])
def test_where_there_are_users_a_ticket_needs_a_login(pair: Cluster, login: LoginToken | None) -> None:
    settle(pair, right(pair, *Right))
    assert refused(pair.node(1), pair.read_ticket(segment_of(pair), login=login)) == "UNAUTHENTICATED"
    assert len(read(pair.node(1), pair.read_ticket(segment_of(pair), login=TOKEN))) == 3


@pytest.mark.parametrize("login", [None, LoginToken("2" * 32)])
def test_calls_without_a_known_login_leave_places_to_wait_to_others(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch, login: LoginToken | None
) -> None:
    monkeypatch.setattr(requests, "FLIGHT_STRANGERS_WAITS_MAX", 1)
    pair.limit(schema_wait_ns=50_000_000)
    settle(pair, right(pair, *Right))
    later, node, codes = Revision(pair.catalog.revision + 1), pair.node(1), list[str]()
    unknown, known = (pair.read_ticket(segment_of(pair), login=one, revision=later) for one in (login, TOKEN))
    node.at_reading(1, lambda: codes.extend([refused(node, unknown), refused(node, known)]))  # while another waits
    codes.append(refused(node, unknown))
    assert codes == ["BUSY", "BEHIND", "BEHIND"]


def test_a_scan_needs_select(pair: Cluster) -> None:
    settle(pair, right(pair, Right.INSERT, Right.ALTER, Right.DROP, Right.CREATE))
    assert refused(pair.node(1), pair.read_ticket(segment_of(pair), login=TOKEN)) == "FORBIDDEN"


def view(made: Cluster, state: UseState = UseState.IN_USE) -> Change:
    record = ViewRecord(id=VIEW, database=made.table.database, name="v", state=state, body="", columns=(), needs=())
    return put(keys.view(VIEW), record)


def test_a_view_that_the_rows_are_read_through_needs_select_too(pair: Cluster) -> None:
    settle(pair, right(pair, Right.SELECT), view(pair))
    request = pair.read_ticket(segment_of(pair), login=TOKEN, through=(VIEW,))
    assert refused(pair.node(1), request) == "FORBIDDEN"
    pair.change([put(keys.grant(VIEW, USER), GrantRecord(object=VIEW, principal=USER, rights=(Right.SELECT,)))])
    assert len(read(pair.node(1), request)) == 3


@pytest.mark.parametrize("going", [True, False])
def test_a_view_that_goes_ends_the_scans_through_it(pair: Cluster, going: bool) -> None:
    pair.change([view(pair)])
    gone = view(pair, UseState.PRE_DELETE) if going else Change(keys.view(VIEW), None)
    pair.node(1).at_reading(3, lambda: pair.change([gone]))
    assert refused(pair.node(1), pair.read_ticket(segment_of(pair), through=(VIEW,))) == "VIEW_DROPPED"


Ending = Callable[[Cluster], list[Change]]

ENDINGS: dict[str, tuple[Ending, str]] = {
    "the right is being revoked": (lambda made: [right(made, *Right, leaving=tuple(Right))], "FORBIDDEN"),
    "the right is gone": (lambda made: [Change(keys.grant(made.table.id, USER), None)], "FORBIDDEN"),
    "the user is being dropped": (lambda _: [principal(USER, state=UseState.PRE_DELETE)], "UNAUTHENTICATED"),
    "the login has ended": (lambda _: [Change(keys.login(LOGIN), None)], "UNAUTHENTICATED"),
}


@pytest.mark.parametrize("batches", [0, 1, 2])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_running_scan_ends_at_the_next_batch(pair: Cluster, ending: str, batches: int) -> None:
    settle(pair, right(pair, *Right))
    change, code = ENDINGS[ending]
    node, released = pair.node(1), []
    # One look at the clock admits the scan, then one for each batch.
    node.at_reading(2 + batches, lambda: pair.change(change(pair)))
    stream = _batches(pair)
    with pytest.raises(LeaseholdError) as caught:
        released.extend(stream)
    assert caught.value.code == code
    assert released == [1000] * batches


def _batches(made: Cluster) -> Iterator[int]:
    server = made.node(1).flight
    assert server is not None
    request = made.read_ticket(segment_of(made), login=TOKEN)
    with calling("node"):
        for chunk in flight.FlightClient(f"grpc://{server.address}").do_get(ticket(request)):
            yield chunk.data.num_rows


def test_the_first_user_ends_the_scans_of_nobody(pair: Cluster) -> None:
    pair.node(1).at_reading(3, lambda: pair.change([principal(USER)]))
    assert refused(pair.node(1), pair.read_ticket(segment_of(pair))) == "UNAUTHENTICATED"


def test_a_revoked_right_on_the_database_or_by_a_role_counts_as_long_as_it_is_held(pair: Cluster) -> None:
    settle(pair)
    request = pair.read_ticket(segment_of(pair), login=TOKEN)
    held = GrantRecord(object=pair.table.database, principal=ROLE, rights=(Right.SELECT,))
    pair.change([put(keys.grant(held.object, ROLE), held), principal(USER, roles=(ROLE,))])
    assert len(read(pair.node(1), request)) == 3
    pair.change([principal(USER, roles=(ROLE,), leaving=(ROLE,))])
    assert refused(pair.node(1), request) == "FORBIDDEN"


# ---------------------------------------------------------------- who is let in before strangers


def test_nodes_and_users_are_known_and_others_are_not(pair: Cluster) -> None:
    server, session = pair.node(1).flight, pair.node(2).published.session
    assert server is not None
    node = FlightCaller(node=NodeId(2), session=session)
    assert server.who_calls(encode(node), None) == "node 2"
    assert server.who_calls(encode(FlightCaller()), None) == "", "anybody who says so, as long as there are no users"
    settle(pair)
    assert server.who_calls(encode(node), None) == "node 2"
    assert server.who_calls(encode(FlightCaller(login=TOKEN)), None) == "user user"
    strangers = (
        FlightCaller(),
        FlightCaller(login=LoginToken("f" * 64)),
        msgspec.structs.replace(node, node=NodeId(1)),
        msgspec.structs.replace(node, session=Session("f" * 64)),
        ForwardAdmitted(),
    )
    assert [server.who_calls(encode(one), None) for one in strangers] == [None] * len(strangers)
    assert [server.who_calls(blob, None) for blob in (b"", b"\xc1", b"\xff" * 100)] == [None] * 3


def test_over_tls_a_caller_is_known_only_with_what_it_may_ask(pair: Cluster) -> None:
    server, session = pair.node(1).flight, pair.node(2).published.session
    assert server is not None
    name = pair.node(1).published.view.nodes[NodeId(2)].name
    node = encode(FlightCaller(node=NodeId(2), session=session))
    stranger, client = Caller(CallerRole.STRANGER), Caller(CallerRole.CLIENT, "ann")
    assert server.who_calls(node, Caller(CallerRole.NODE, name)) == "node 2"
    for other in (Caller(CallerRole.NODE, f"not {name}"), client, stranger):
        assert server.who_calls(node, other) is None
    nothing = encode(FlightCaller())
    assert server.who_calls(nothing, stranger) is None, "in an open cluster it is refused in any case"
    assert server.who_calls(nothing, client) == "client ann"
    settle(pair)
    assert server.who_calls(encode(FlightCaller(login=TOKEN)), stranger) == "user user"
    assert server.who_calls(nothing, client) is None


# ---------------------------------------------------------------- appends


def _written(made: Cluster, login: LoginToken | None, meanwhile: Callable[[], object]) -> StagedSegment:
    request = msgspec.structs.replace(write_ticket(made), login=login)
    stream = Stream(made, 1, request, arrow_schema(made.facts().fields)).send(rows(0, 3))
    meanwhile()
    answer = stream.end(RowsEnd(rows=3))
    assert answer is not None
    return expect(StagedSegment, answer)


def test_an_append_needs_a_login_and_insert(pair: Cluster) -> None:
    before = files_of(pair, 1)
    settle(pair, right(pair, Right.SELECT))
    for login, code in ((None, "UNAUTHENTICATED"), (TOKEN, "FORBIDDEN")):
        with pytest.raises(LeaseholdError) as caught:
            _written(pair, login, lambda: None)
        assert caught.value.code == code
    pair.change([right(pair, Right.INSERT)])
    assert _written(pair, TOKEN, lambda: None).rows == 3
    assert len(files_of(pair, 1)) == len(before) + 1


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_append_whose_right_goes_meanwhile_gets_no_answer(pair: Cluster, ending: str) -> None:
    before = files_of(pair, 1)
    settle(pair, right(pair, *Right))
    change, code = ENDINGS[ending]
    with pytest.raises(LeaseholdError) as caught:
        _written(pair, TOKEN, lambda: pair.change(change(pair)))
    assert caught.value.code == code
    until_gone(pair)
    assert files_of(pair, 1) == before


def test_revoke_hides_the_right_with_its_first_transaction(pair: Cluster) -> None:
    settle(pair, right(pair, Right.SELECT))
    everything = GrantRecord(object=ObjectId(0), principal=PrincipalId(103), rights=tuple(Right))
    root = PrincipalRecord(
        id=PrincipalId(103), name="root", kind=PrincipalKind.USER, state=UseState.IN_USE, password_hash="", roles=()
    )
    login = LoginRecord(token_hash=b"r" * 32, user=root.id, order=2)
    pair.change(
        [
            put(keys.principal(root.id), root),
            put(keys.grant(ObjectId(0), root.id), everything),
            put(keys.login(login.token_hash), login),
        ]
    )
    pair.login = login.token_hash
    revoke = parse("REVOKE SELECT ON TABLE db.t FROM user")
    assert isinstance(revoke, Revoke)
    pair.hide(revoke)
    assert refused(pair.node(1), pair.read_ticket(segment_of(pair), login=TOKEN)) == "FORBIDDEN"


# ---------------------------------------------------------------- copies


def test_only_nodes_forward_segments(pair: Cluster) -> None:
    """Who may not append any more, and knows a transaction, puts no bytes on a disk by calling himself a node."""
    before = files_of(pair, 2)
    for session in (None, Session("6" * 32), pair.node(2).published.session):
        with pytest.raises(Forbidden):
            forwarded(pair, forward_ticket(pair, session=session), b"some bytes")
    assert files_of(pair, 2) == before
    assert forwarded(pair, forward_ticket(pair), b"some bytes").node == 2


def test_a_node_forwards_by_its_own_session(pair: Cluster) -> None:
    settle(pair, right(pair, *Right))
    assert [one.node for one in _written(pair, TOKEN, lambda: None).holders] == [1, 2]
    pair.node(1).published.session = Session("6" * 32)
    assert [one.node for one in _written(pair, TOKEN, lambda: None).holders] == [1], "its peer takes it for nobody"


def copied(made: Cluster, by: Published) -> str | None:
    """What the first node says to who wants a copy of the segment; None if it gives one."""
    segment, lacks = segment_of(made), made.node(2).files
    lacks.trash(segment.table, segment.bucket, segment.id)
    said: list[LeaseholdError | None] = []
    places = [Peer(made.node(1).id, made.catalog.nodes[made.node(1).id].address, "")]
    fetch_segment(lacks, segment, places, CLUSTER, by, lambda _node, error, _came: said.append(error))
    (error,) = said
    return None if error is None else error.code


def calling_itself(number: int, session: Session | None) -> Published:
    one = Published()
    one.joined(CLUSTER, NodeId(number), Incarnation(1))
    one.session = session
    return one


def test_only_nodes_copy_segments(pair: Cluster) -> None:
    """A copy holds what no right covers: rows of dropped columns, deleted ones, all that SELECT would filter."""
    session = pair.node(2).published.session
    assert copied(pair, pair.node(2).published) is None
    for number, wrong in ((0, None), (2, None), (2, Session("6" * 32)), (1, session), (9, session)):
        assert copied(pair, calling_itself(number, wrong)) == "FORBIDDEN"
    record = pair.catalog.nodes[pair.node(2).id]
    pair.change([put(keys.node(record.id), msgspec.structs.replace(record, removed=True))])
    assert copied(pair, pair.node(2).published) == "FORBIDDEN"


def test_a_node_that_has_not_heard_of_the_first_user_gives_copies_to_nodes_alone(pair: Cluster) -> None:
    """It is fenced, so CREATE USER has returned without it: no guard stands before a copy."""
    pair.node(1).fence()
    pair.change([principal(USER)], shown=False)
    assert not pair.node(1).published.view.users
    assert copied(pair, calling_itself(0, None)) == "FORBIDDEN"
    assert copied(pair, pair.node(2).published) is None
