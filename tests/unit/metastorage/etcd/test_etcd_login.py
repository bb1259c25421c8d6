"""How the client logs in, and when it does so again."""

import asyncio
import os
from pathlib import Path

import grpc
import pytest

from leasehold.errors import BadSettings, Unreachable
from leasehold.metastorage.etcd.messages import AUTHENTICATE, RANGE, TXN, RangeRequest, TxnRequest
from leasehold.metastorage.log.store import StoreDenied
from tests.unit.metastorage.etcd.fake_etcd import FakeEtcd, client, declining, hanging, served

GET = RangeRequest(key=b"k")
PUT = TxnRequest()


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("hush\n")
    return path


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


async def test_a_refused_token_is_renewed_once_for_all_requests(password: Path) -> None:
    one = FakeEtcd(1)
    one.token = "first"
    async with served(one) as addresses:
        etcd = client(addresses, user="leasehold", password=password)
        await etcd.write(TXN, PUT)
        assert one.logins == 1
        login = next(request for request in one.requests if type(request).__name__ == "AuthenticateRequest")
        assert (login.name, login.password) == ("leasehold", "hush")
        one.token = "second"
        await asyncio.gather(*(etcd.write(TXN, PUT) for _ in range(10)))
        assert one.logins == 2
        assert one.asked.count("Txn") == 11
        await etcd.close()


async def test_a_token_that_is_never_accepted(password: Path) -> None:
    one = FakeEtcd(1)
    one.scripts[RANGE] = declining(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
    async with served(one) as addresses:
        etcd = client(addresses, user="leasehold", password=password)
        with pytest.raises(Unreachable, match="refused a new token"):
            await etcd.read(RANGE, GET)
        assert one.asked.count("Range") == 2 * one.logins
        await etcd.close()


async def test_who_has_no_user_or_the_wrong_password_is_told_so(password: Path, tmp_path: Path) -> None:
    one = FakeEtcd(1)
    bad = written(tmp_path / "latin", b"\xff"), written(tmp_path / "long", b"x" * 2_000), tmp_path / "pipe"
    os.mkfifo(tmp_path / "pipe")  # nobody ever writes into it
    one.token = "first"
    async with served(one) as addresses:
        etcd = client(addresses)
        with pytest.raises(StoreDenied, match="wants a user"):
            await etcd.read(RANGE, GET)
        await etcd.close()
        one.scripts[AUTHENTICATE] = declining(
            grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: authentication failed, invalid user ID or password"
        )
        etcd = client(addresses, user="leasehold", password=password)
        with pytest.raises(StoreDenied, match="does not accept the user") as caught:
            await etcd.write(TXN, PUT)
        assert "hush" not in str(caught.value)
        await etcd.close()
        for path in (tmp_path / "nothing", tmp_path, None, *bad):
            etcd = client(addresses, user="leasehold", password=path)
            with pytest.raises(BadSettings):
                await etcd.read(RANGE, GET)
            await etcd.close()


@pytest.mark.parametrize("token", ["t\u00f6ken", "to\nken"])
async def test_a_token_that_can_not_be_sent(password: Path, token: str) -> None:
    one = FakeEtcd(1)
    one.token = token
    async with served(one) as addresses:
        etcd = client(addresses, user="leasehold", password=password)
        with pytest.raises(Unreachable, match="its token can't be read"):
            await etcd.write(TXN, PUT)
        await etcd.close()


async def test_requests_do_not_wait_for_each_others_logins(password: Path) -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.token = two.token = "first"
    one.scripts[AUTHENTICATE] = hanging
    async with served(one, two) as addresses:
        etcd = client(addresses, user="leasehold", password=password)
        async with asyncio.timeout(4):
            answers = await asyncio.gather(*(etcd.write(TXN, PUT) for _ in range(10)))
        assert {answer.header.member_id for answer in answers} == {2}
        await etcd.close()


async def test_a_login_that_fails_on_its_way_leaves_the_write_unsent(password: Path) -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    one.token = two.token = "first"
    one.scripts[AUTHENTICATE] = declining(grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out")
    async with served(one, two) as addresses:
        etcd = client(addresses, user="leasehold", password=password)
        assert (await etcd.write(TXN, PUT)).header.member_id == 2
        assert "Txn" not in one.asked
        await etcd.close()
