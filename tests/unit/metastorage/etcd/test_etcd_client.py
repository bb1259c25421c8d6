"""How the client treats members that are slow, stale, garbled, without a leader, or of another cluster."""

import asyncio
from pathlib import Path

import grpc
import msgspec
import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Indefinite, Refused, Unreachable
from leasehold.local.ports import lasting_ports
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.messages import (
    DELETE_RANGE,
    MEMBER_LIST,
    RANGE,
    STATUS,
    TXN,
    DeleteRangeRequest,
    EtcdAnswer,
    EtcdMember,
    MemberListResponse,
    RangeRequest,
    RangeResponse,
    TxnRequest,
)
from leasehold.metastorage.log.store import StoreUnsuitable
from leasehold.wire.clock import BoottimeClock
from tests.unit.metastorage.etcd.fake_etcd import FakeEtcd, client, declining, hanging, served

GET = RangeRequest(key=b"k")
PUT = TxnRequest()
NOBODY = "127.0.0.1:1"


async def test_a_read_goes_on_at_the_next_member_and_the_one_that_failed_is_asked_last() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.scripts[RANGE] = hanging
    async with served(one, two) as addresses:
        etcd = client(addresses, try_ms=100)
        for _ in range(2):
            assert (await etcd.read(RANGE, GET)).header.member_id == 2
        assert one.asked == ["Status", "Range"]
        assert two.asked == ["Status", "Range", "Range"]
        await etcd.close()


@pytest.mark.parametrize("answer", [hanging, declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed")])
async def test_a_write_of_which_nothing_is_known_is_not_sent_again(answer) -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.scripts[TXN] = answer
    async with served(one, two) as addresses:
        etcd = client(addresses, try_ms=100)
        with pytest.raises(Indefinite, match=f"not known whether etcd at {addresses[0]}"):
            await etcd.write(TXN, PUT)
        assert (one.asked, two.asked) == (["Status", "Txn"], [])
        assert (await etcd.write(TXN, PUT)).succeeded, "the next request begins elsewhere"
        assert two.asked == ["Status", "Txn"]
        await etcd.close()


@pytest.mark.parametrize(
    "answer",
    [
        declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader"),
        declining(grpc.StatusCode.UNKNOWN, "etcdserver: too many requests"),
    ],
)
async def test_a_write_that_surely_did_not_happen_is_sent_elsewhere(answer) -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.scripts[TXN] = answer
    async with served(one, two) as addresses:
        etcd = client((NOBODY, *addresses))
        assert (await etcd.write(TXN, PUT)).header.member_id == 2
        assert (one.asked, two.asked) == (["Status", "Txn"], ["Status", "Txn"])
        await etcd.close()


async def test_a_member_that_hangs_before_the_write_is_sent_does_not_get_it() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.scripts[STATUS] = hanging
    async with served(one, two) as addresses:
        etcd = client(addresses, try_ms=100)
        assert (await etcd.write(TXN, PUT)).header.member_id == 2
        assert one.asked == ["Status"]
        await etcd.close()


async def test_where_nobody_answers_the_error_says_why_of_each() -> None:
    one = FakeEtcd(1)
    one.scripts[RANGE] = declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
    async with served(one) as (address,):
        etcd = client((NOBODY, address))
        with pytest.raises(Unreachable) as caught:
            await etcd.read(RANGE, GET)
        assert f"{NOBODY}: nothing listens there (connection refused)" in caught.value.text
        assert f"{address}: etcd answers: no leader" in caught.value.text
        assert one.asked.count("Range") > 5, "rounds follow each other"
        await etcd.close()


async def test_a_stale_answer_is_asked_for_elsewhere() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    async with served(one, two) as addresses:
        etcd = client(addresses)
        await etcd.read(RANGE, GET)
        one.set_revision(9)
        assert (await etcd.read(RANGE, GET)).header.member_id == 2
        two.set_revision(9)
        with pytest.raises(Unreachable, match="of revision 9, below 10"):
            await etcd.read(RANGE, GET)
        one.set_revision(11)
        assert (await etcd.read(RANGE, GET)).header.revision == 11
        await etcd.close()


async def test_what_was_read_before_a_write_of_ours_is_not_believed_after_it() -> None:
    """So who was elected never begins with a head from before its election."""
    one, two = FakeEtcd(1), FakeEtcd(2)
    async with served(one, two) as addresses:
        etcd = client(addresses)
        assert (await etcd.write(TXN, PUT)).header.revision == 11
        one.scripts[RANGE] = declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: leader changed")
        with pytest.raises(Unreachable, match="of revision 10, below 11"):
            await etcd.read(RANGE, GET)
        two.set_revision(11)
        assert (await etcd.read(RANGE, GET)).header.member_id == 2
        await etcd.close()


async def test_a_release_that_reads_stale_writes_before_it_reads() -> None:
    """One lags: it has applied what it was asked to write itself, and answers reads from before that."""
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.status = msgspec.structs.replace(one.status, version="3.5.27")

    async def applied(request: DeleteRangeRequest) -> EtcdAnswer:
        assert request == DeleteRangeRequest(key=b"k\0")
        return EtcdAnswer(header=msgspec.structs.replace(one.header, revision=11))

    one.scripts[DELETE_RANGE] = applied
    two.set_revision(11)
    async with served(one, two) as addresses:
        etcd = client(addresses)
        assert (await etcd.read(RANGE, GET)).header.member_id == 2
        assert one.asked == ["Status", "DeleteRange", "Range"]
        assert two.asked == ["Status", "Range"]
        one.set_revision(11)
        assert (await etcd.read(TXN, PUT)).header.member_id == 2
        await etcd.close()


async def test_a_read_goes_on_elsewhere_if_the_write_before_it_has_no_answer() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.status = msgspec.structs.replace(one.status, version="3.4.23")
    one.scripts[DELETE_RANGE] = hanging
    async with served(one, two) as addresses:
        etcd = client(addresses, try_ms=100)
        assert (await etcd.read(RANGE, GET)).header.member_id == 2
        assert one.asked == ["Status", "DeleteRange"]
        await etcd.close()


async def test_an_answer_may_be_older_than_one_that_came_while_it_was_on_its_way() -> None:
    one, release, entered = FakeEtcd(1), asyncio.Event(), asyncio.Event()

    async def late(_request: object) -> RangeResponse:
        header = one.header
        entered.set()
        await release.wait()
        return RangeResponse(header=header)

    async with served(one) as addresses:
        etcd = client(addresses)
        one.scripts[RANGE] = late
        reading = asyncio.ensure_future(etcd.read(RANGE, GET))
        await entered.wait()
        await etcd.write(TXN, PUT)
        release.set()
        assert (await reading).header.revision == 10
        assert etcd.seen.newest == 11
        await etcd.close()


@pytest.mark.parametrize("blob", [b"\xff", b"\x0a\x05", b"\x12\x00" * 5_000])
async def test_a_garbled_answer(blob: bytes) -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)

    async def garbled(_request: object) -> bytes:
        return blob

    one.scripts |= {RANGE: garbled, TXN: garbled}
    async with served(one, two) as addresses:
        etcd = client(addresses)
        assert (await etcd.read(RANGE, GET)).header.member_id == 2
        await etcd.close()
        etcd = client(addresses)
        with pytest.raises(Indefinite, match="can't be read"):
            await etcd.write(TXN, PUT)
        await etcd.close()


async def test_endpoints_of_two_clusters_are_refused_before_anything_is_written() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2, cluster_id=100)
    async with served(one, two) as addresses:
        etcd = client(addresses)
        await etcd.read(RANGE, GET)
        one.scripts[TXN] = declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
        with pytest.raises(StoreUnsuitable, match="another cluster") as caught:
            await etcd.write(TXN, PUT)
        assert all(address in caught.value.text for address in addresses)
        assert two.asked == ["Status"]
        one.header = msgspec.structs.replace(one.header, cluster_id=101)
        with pytest.raises(StoreUnsuitable, match="another cluster"):
            await etcd.read(RANGE, GET)
        await etcd.close()


async def test_a_learner_is_passed_over_and_an_unsuitable_release_is_refused() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.status = msgspec.structs.replace(one.status, is_learner=True)
    async with served(one, two) as addresses:
        etcd = client(addresses)
        assert (await etcd.read(RANGE, GET)).header.member_id == 2
        await etcd.close()
        two.status = msgspec.structs.replace(two.status, version="3.5.4")
        etcd = client(addresses)
        with pytest.raises(StoreUnsuitable, match=r"3\.5\.4"):
            await etcd.read(RANGE, GET)
        await etcd.close()


async def test_members_are_asked_where_they_say_that_they_listen() -> None:
    one, two, learner, absent, odd = (
        EtcdMember(id=number, name=f"m{number}", client_urls=(f"http://127.0.0.1:{number}",)) for number in range(1, 6)
    )
    asked, hidden, lagging = FakeEtcd(1), FakeEtcd(2), FakeEtcd(3)
    hidden.status = msgspec.structs.replace(hidden.status, version="3.6.1")
    async with served(asked, hidden, lagging) as (address, hidden_at, lagging_at):

        async def answer(_request: object) -> MemberListResponse:
            urls = {two: ("unix://2", "http://127.0.0.1:1", f"http://{hidden_at}"), learner: (f"http://{lagging_at}",)}
            urls |= {odd: ("http://[::1", "", f"http://{hidden_at}")}
            listed = tuple(
                msgspec.structs.replace(member, client_urls=urls.get(member, ()), is_learner=member is learner)
                for member in (one, two, learner, absent, odd)
            )
            return MemberListResponse(header=msgspec.structs.replace(asked.header, revision=0), members=listed)

        asked.scripts[MEMBER_LIST] = answer
        etcd = client((address,))
        await etcd.read(RANGE, GET)
        found = [(member.name, at, status.version) for member, at, status in (await etcd.members())[0]]
        assert found == [("m1", address, "3.6.14"), ("m2", hidden_at, "3.6.1")]
        hidden.status = msgspec.structs.replace(hidden.status, version="3.5.4")
        members, declines = await etcd.members()
        assert [member.name for member, _, _ in members] == ["m1"]
        assert {at: type(decline) for at, decline in declines.items()} == {hidden_at: StoreUnsuitable}
        await etcd.close()


async def test_what_is_not_etcd_is_refused() -> None:
    server = grpc.aio.server()
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    etcd = client((address,))
    with pytest.raises(StoreUnsuitable, match="is not etcd"):
        await etcd.read(RANGE, GET)
    await etcd.close()
    await server.stop(0)


# ------------------------------------------------------------ life


def test_files_of_certificates_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="nothing"):
        EtcdClient(StoreAccess(endpoints=(NOBODY,), ca_file=tmp_path / "nothing"), BoottimeClock())


async def test_what_waits_when_the_client_is_closed_gets_an_indefinite_error() -> None:
    one, entered = FakeEtcd(1), asyncio.Event()

    async def wait(_request: object) -> RangeResponse:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    one.scripts |= {TXN: wait}
    async with served(one) as addresses:
        etcd = client(addresses)
        waiting = asyncio.ensure_future(etcd.write(TXN, PUT))
        await entered.wait()
        await etcd.close()
        with pytest.raises(Indefinite):
            await waiting
        with pytest.raises(Refused) as caught:
            await etcd.read(RANGE, GET)
        assert caught.value.code is ErrorCode.CLOSED


async def test_a_cancelled_request_is_cancelled() -> None:
    one, entered = FakeEtcd(1), asyncio.Event()

    async def wait(_request: object) -> RangeResponse:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    one.scripts[RANGE] = wait
    async with served(one) as addresses:
        etcd = client(addresses)
        waiting = asyncio.ensure_future(etcd.read(RANGE, GET))
        await entered.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert one.asked == ["Status", "Range"]
        await etcd.close()


async def test_a_member_that_comes_back_is_asked_who_it_is_again() -> None:
    one, again = FakeEtcd(1), FakeEtcd(2, cluster_id=100)
    (port,) = lasting_ports(1)  # nobody else gets it meanwhile
    async with served(one, port=port) as addresses:
        etcd = client(addresses)
        await etcd.read(RANGE, GET)
        await etcd.read(RANGE, GET)
    async with served(again, port=port):
        # Not a write: the client may see late that its connection has broken, and then nobody knows what it did.
        with pytest.raises(StoreUnsuitable, match="another cluster"):
            await etcd.read(RANGE, GET)
        assert again.asked == ["Status"]
        await etcd.close()
