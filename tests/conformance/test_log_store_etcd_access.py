"""Real members of etcd that want a user or a certificate."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, LeaseholdError, Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.endpoint import EtcdEndpoint
from leasehold.metastorage.etcd.messages import EtcdMessage
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.etcd.users import (
    AUTH_ENABLE,
    ROOT,
    USER_ADD,
    USER_GRANT_ROLE,
    UserPassword,
    UserRole,
    demand_login,
)
from leasehold.metastorage.log.store import StoreDenied, StoreUnsuitable, Swap
from tests.certificates import Authority
from tests.conformance.store_words import until_it_answers
from tests.etcd_admin import EtcdAdministrator
from tests.etcd_cluster import EtcdCluster

PUT = Swap(unchanged={}, puts={"log/head": b"1"})


@pytest.fixture
def one(tmp_path: Path) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path / "plain", 1)
    cluster.start()
    yield cluster
    cluster.kill()


async def test_a_user_with_a_password(one: EtcdCluster, tmp_path: Path) -> None:
    (tmp_path / "right").write_text("hush\n")
    (tmp_path / "wrong").write_text("loud\n")

    def store(prefix: str, user: str | None, password: str) -> EtcdStore:
        access = StoreAccess(endpoints=one.endpoints, user=user, password_file=tmp_path / password)
        return one.store(prefix, access, try_ns=20 * SECOND_NS)

    before = store("mine", "leasehold", "right")
    await until_it_answers(before)
    assert await before.swap(PUT) is not None, "a user does no harm while etcd has none"
    administrator = EtcdAdministrator(one.endpoints[0])
    await administrator.enable_users("leasehold", "hush", "mine")
    for stranger in (
        store("mine", None, "right"),
        store("mine", "leasehold", "wrong"),
        store("mine", "nobody", "right"),
    ):
        with pytest.raises(StoreDenied):
            await stranger.swap(PUT)
        with pytest.raises(StoreDenied):
            await stranger.get("log/head")
        await stranger.close()
    other = store("mine-too", "leasehold", "right")
    with pytest.raises(StoreDenied, match="does not grant"):
        await other.swap(PUT)
    await other.close()

    watch = before.watch("log/head")
    async with asyncio.timeout(60):
        await anext(watch)
        for _ in range(2):
            await administrator.end_tokens("leasehold", "hush")
            assert await before.swap(PUT) is not None
            await anext(watch)
        one.kill()
        one.start()
        await anext(watch)  # a member that starts anew knows no token
        await until_it_answers(before)
        assert await before.swap(PUT) is not None
        await anext(watch)
    before.stand_by()
    await administrator.log_in()
    await administrator.end_tokens("leasehold", "changed")
    with pytest.raises(Unreachable, match="does not accept") as caught:
        await before.swap(PUT)
    assert caught.value.code is ErrorCode.STORE_DENIED
    (tmp_path / "right").write_text("changed\n")
    assert await before.swap(PUT) is not None
    assert await before.page("log", limit=1)
    assert len(await before.members()) == 1
    assert not (await before.size()).is_full
    await watch.aclose()
    await before.close()
    await administrator.close()


@pytest.mark.parametrize("done", range(4))
async def test_a_login_is_demanded_once_whatever_was_done_before(one: EtcdCluster, tmp_path: Path, done: int) -> None:
    (tmp_path / "password").write_text("hush")
    access = StoreAccess(endpoints=one.endpoints, user=ROOT, password_file=tmp_path / "password")
    owner, stranger = one.store(access=access, try_ns=20 * SECOND_NS), one.store(try_ns=20 * SECOND_NS)
    await until_it_answers(owner)
    assert await owner.swap(PUT) is not None
    steps = (
        (USER_ADD, UserPassword(name=ROOT, password="another")),
        (USER_GRANT_ROLE, UserRole(user=ROOT, role=ROOT)),
        (AUTH_ENABLE, EtcdMessage()),
    )
    endpoint = EtcdEndpoint(one.endpoints[0], None)
    for method, request in steps[:done]:
        await endpoint.call(method, request, timeout_ns=20 * SECOND_NS)
    if done == len(steps):
        with pytest.raises(StoreDenied):
            await demand_login(endpoint, "hush")
        await demand_login(endpoint, "another")
    else:
        await demand_login(endpoint, "hush")
        await demand_login(endpoint, "hush")
        assert await owner.get("log/head") is not None
        assert (await owner.members())[0].leads
        assert await owner.size()
    for refused in (stranger.get("log/head"), stranger.page("log", limit=1), stranger.swap(PUT)):
        with pytest.raises(StoreDenied):
            await refused
    for store in (owner, stranger):
        await store.close()
    await endpoint.close()


# ------------------------------------------------------------ certificates


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


@pytest.fixture
async def encrypted(authority: Authority, tmp_path: Path) -> AsyncIterator[EtcdCluster]:
    certificate, key = authority.sign("server")
    arguments = ("--cert-file", str(certificate), "--key-file", str(key))
    arguments += ("--trusted-ca-file", str(authority.certificate), "--client-cert-auth")
    cluster = EtcdCluster(tmp_path / "encrypted", 1, arguments, scheme="https")
    cluster.start()
    yield cluster
    cluster.kill()


async def test_certificates(encrypted: EtcdCluster, authority: Authority, tmp_path: Path, one: EtcdCluster) -> None:
    endpoints, ca = encrypted.endpoints, authority.certificate
    certificate, key = authority.sign("client")
    access = StoreAccess(endpoints=endpoints, ca_file=ca, certificate_file=certificate, key_file=key)
    store = encrypted.store("mine", access)
    await until_it_answers(store)
    assert await store.swap(PUT) is not None
    (member,) = await store.members()
    assert member.address == endpoints[0]
    await store.close()

    other = Authority(tmp_path, "other")
    strange, strange_key = other.sign("stranger")
    encrypted_by_none = StoreAccess(endpoints=one.endpoints, ca_file=ca)
    bad = (
        (StoreAccess(endpoints=endpoints), "perhaps it speaks TLS only"),
        (StoreAccess(endpoints=endpoints, ca_file=ca), "TLS failed"),
        (StoreAccess(endpoints=endpoints, ca_file=ca, certificate_file=strange, key_file=strange_key), "TLS failed"),
        (encrypted_by_none, "perhaps it does not speak TLS"),
    )
    await asyncio.gather(*(assert_no_answer(encrypted.store("mine", one), Unreachable, why) for one, why in bad))
    no_ca = StoreAccess(endpoints=endpoints, ca_file=key)
    await assert_no_answer(encrypted.store("mine", no_ca), BadSettings, "can't be used for TLS")
    other_ca = StoreAccess(endpoints=endpoints, ca_file=other.certificate)
    await assert_no_answer(encrypted.store("mine", other_ca), StoreUnsuitable, "is not one of the CA")

    serving = encrypted.store("mine", access)
    assert await serving.get("log/head") is not None
    serving.stand_by()
    authority.sign("server", days=0)  # etcd reads the file again for each connection
    await assert_no_answer(encrypted.store("mine", access), StoreUnsuitable, "has expired")
    encrypted.kill()
    encrypted.start()
    async with asyncio.timeout(60):
        while True:
            with pytest.raises(Unreachable) as caught:
                await serving.get("log/head")
            if "has expired" in caught.value.text:
                break
        assert caught.value.code is ErrorCode.STORE_UNSUITABLE
        authority.sign("server")
        await until_it_answers(serving)
    await serving.close()


async def assert_no_answer(store: EtcdStore, error: type[LeaseholdError], why: str) -> None:
    with pytest.raises(error) as caught:
        await store.get("log/head")
    assert why in caught.value.text
    await store.close()
