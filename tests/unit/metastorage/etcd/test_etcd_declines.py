"""Members of etcd that decline: passed over while another one answers, and asked again by who stands by."""

import asyncio
from pathlib import Path

import grpc
import msgspec
import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import Unreachable
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.messages import AUTHENTICATE, RANGE, TXN, RangeRequest, TxnRequest
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.log.store import OtherStore, StoreDenied, StoreUnsuitable
from tests.unit.metastorage.etcd.fake_etcd import FakeEtcd, client, declining, served

GET = RangeRequest(key=b"k")
DENIED = declining(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
WRONG = declining(grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID or password")
ALONE = declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")


def standing_by(addresses: tuple[str, ...], password: Path | None = None) -> EtcdClient:
    etcd = client(addresses, user="leasehold", password=password)
    etcd.stand_by()
    return etcd


def old(number: int) -> FakeEtcd:
    member = FakeEtcd(number)
    member.status = msgspec.structs.replace(member.status, version="3.5.4")
    return member


async def test_a_member_that_declines_is_passed_over_while_another_one_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, two, three = old(1), FakeEtcd(2), FakeEtcd(3)
    two.scripts = {RANGE: DENIED, TXN: DENIED}
    async with served(one, two, three) as addresses:
        etcd = client(addresses)
        assert (await etcd.read(RANGE, GET)).header.member_id == 3
        store = EtcdStore(etcd, "mine")
        warnings = [member.warning for member in await store.members() if member.warning]
        assert warnings == [
            f"etcd 3.5.4 at {addresses[0]} can lose what it holds after a crash, so this member is passed over"
        ]
        assert (await store.size()).used_bytes == three.status.db_size_in_use
        await store.close()
        etcd = client(addresses)
        assert (await etcd.write(TXN, TxnRequest())).header.member_id == 3
        await etcd.close()
    said = [one.getMessage() for one in caplog.records]
    assert any("3.5.4" in text and "passed over" in text for text in said)
    assert any("does not grant" in text and "passed over" in text for text in said)


async def test_who_stands_by_hears_that_no_member_answers_and_why() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.scripts = two.scripts = {RANGE: DENIED}
    async with served(one, two) as addresses:
        etcd = client(addresses)
        with pytest.raises(StoreDenied):
            await etcd.read(RANGE, GET)
        etcd.stand_by()
        with pytest.raises(Unreachable, match="does not grant this to the user") as caught:
            await etcd.read(RANGE, GET)
        assert caught.value.code is ErrorCode.STORE_DENIED
        assert "read and write the keys" in caught.value.hint
        two.scripts = {RANGE: ALONE}
        with pytest.raises(Unreachable, match=r"no leader; .*does not grant|does not grant.*no leader") as caught:
            await etcd.read(RANGE, GET)
        assert caught.value.code is ErrorCode.NO_QUORUM
        one.scripts = {}
        assert await etcd.read(RANGE, GET)
        await etcd.close()


async def test_at_the_start_a_decline_counts_although_other_members_do_not_answer() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.scripts, two.scripts = {RANGE: ALONE}, {RANGE: DENIED}
    async with served(one, two) as addresses:
        etcd = client(addresses)
        with pytest.raises(StoreDenied):
            await etcd.read(RANGE, GET)
        await etcd.close()


async def test_a_member_of_another_cluster_is_refused_at_the_start_and_passed_over_later() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2, cluster_id=100)
    async with served(one, two) as addresses:
        store = EtcdStore(client(addresses), "mine")
        with pytest.raises(OtherStore, match="another cluster"):
            await store.members()
        await store.close()
        etcd = client(addresses)
        await etcd.read(RANGE, GET)
        etcd.stand_by()
        one.scripts = {RANGE: ALONE}
        with pytest.raises(Unreachable, match=r"another cluster.*no leader|no leader.*another cluster"):
            await etcd.read(RANGE, GET)
        one.scripts = {}
        assert (await etcd.read(RANGE, GET)).header.member_id == 1
        members = await EtcdStore(etcd, "mine").members()
        assert [one.address for one in members if "another cluster" in one.warning] == [addresses[1]]
        one.header = msgspec.structs.replace(one.header, cluster_id=100)
        with pytest.raises(OtherStore):  # the store was replaced
            await etcd.read(RANGE, GET)
        await etcd.close()


async def test_a_password_that_was_refused_is_not_sent_again_and_again(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("old")
    one = FakeEtcd(1)
    one.token = "token"
    one.scripts = {AUTHENTICATE: WRONG}
    async with served(one) as addresses:
        etcd = standing_by(addresses, password)
        for _ in range(3):
            answers = await asyncio.gather(*(etcd.read(RANGE, GET) for _ in range(5)), return_exceptions=True)
            assert {type(answer) for answer in answers} == {Unreachable}
        assert one.asked.count("Authenticate") == 1
        password.unlink()
        with pytest.raises(Unreachable, match="can't be read"):
            await etcd.read(RANGE, GET)
        one.scripts = {}
        password.write_text("new")
        assert await etcd.read(RANGE, GET)
        await etcd.close()


async def test_nothing_but_unsuitable_members_is_refused() -> None:
    async with served(old(1), old(2)) as addresses:
        store = EtcdStore(client(addresses), "mine")
        for ask in (store.members, store.size, lambda: store.get("log/head")):
            with pytest.raises(StoreUnsuitable, match=r"3\.5\.4"):
                await ask()
        await store.close()
