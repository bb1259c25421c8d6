"""Real members of ZooKeeper that know a user or want a certificate."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError, NotEmptyError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.local.zookeeper import find_jars
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.log.store import LogStore, StoreDenied, StoreUnsuitable, Swap
from tests.certificates import Authority
from tests.conformance.store_words import until_it_answers
from tests.zookeeper_cluster import ZooKeeperCluster, administrator

PUT = Swap(unchanged={}, puts={"log/head": b"1"})


async def test_a_user_with_a_password(one_zookeeper: ZooKeeperCluster, tmp_path: Path) -> None:
    (tmp_path / "right").write_text("hush\n")
    (tmp_path / "wrong").write_text("loud\n")

    def store(user: str | None, password: str) -> LogStore:
        access = StoreAccess(endpoints=one_zookeeper.endpoints, user=user, password_file=tmp_path / password)
        return one_zookeeper.store("mine", access, try_ns=20 * SECOND_NS)

    owner = store("leasehold", "right")
    assert await owner.swap(PUT) is not None
    assert (await owner.size()).quota_bytes is not None
    strangers = [store(None, "right"), store("leasehold", "wrong"), store("nobody", "right")]
    for stranger in strangers:
        for refused in (stranger.get("log/head"), stranger.page("log", limit=1), stranger.swap(PUT)):
            with pytest.raises(StoreDenied, match="does not grant"):
                await refused
    another = store("leasehold", "right")
    assert await another.get("log/head") is not None
    assert await another.swap(PUT) is not None
    with administrator(one_zookeeper) as kazoo:
        for path in ("/mine", "/mine/log", "/mine/log/head", "/mine/log/head/head"):
            for refused in (kazoo.get, lambda one: kazoo.create(f"{one}/more"), lambda one: kazoo.set(one, b"")):
                with pytest.raises(NoAuthError):
                    refused(path)
        with pytest.raises(NoAuthError):
            kazoo.delete("/mine/log/head/head")
        with pytest.raises(NotEmptyError):
            kazoo.delete("/mine")
    owner.stand_by()
    with administrator(one_zookeeper) as kazoo:
        kazoo.add_auth("digest", "leasehold:hush")
        for path in ("/mine", "/mine/log", "/mine/log/head", "/mine/log/head/head"):
            kazoo.set_acls(path, [make_digest_acl("leasehold", "changed", all=True)])
    with pytest.raises(Unreachable, match="does not grant") as caught:
        await owner.swap(PUT)
    assert caught.value.code is ErrorCode.STORE_DENIED
    (tmp_path / "right").write_text("changed")
    assert await owner.swap(PUT) is not None
    for one in (owner, another, *strangers):
        await one.close()
    missing = store("leasehold", "missing")
    with pytest.raises(BadSettings, match="can't be read"):
        await missing.get("log/head")
    await missing.close()


@pytest.mark.parametrize(
    "everybody", [OPEN_ACL_UNSAFE, [make_acl("ip", "127.0.0.1", create=True)]], ids=["world", "ip"]
)
async def test_a_root_that_a_stranger_made_first_is_not_used(
    one_zookeeper: ZooKeeperCluster, tmp_path: Path, everybody: list[ACL]
) -> None:
    """Who may create nodes below it would own what they hold."""
    name = f"open-{everybody[0].id.scheme}"
    with administrator(one_zookeeper) as kazoo:
        kazoo.create(f"/{name}", acl=[*everybody, make_acl("world", "anyone", read=True)])
    (tmp_path / "password").write_text("hush")
    access = StoreAccess(endpoints=one_zookeeper.endpoints, user="leasehold", password_file=tmp_path / "password")
    store = one_zookeeper.store(name, access, try_ns=20 * SECOND_NS)
    for refused in (store.get("log/head"), store.swap(PUT)):
        with pytest.raises(StoreUnsuitable, match="everybody may change"):
            await refused
    await store.close()
    with administrator(one_zookeeper) as kazoo:
        assert kazoo.get_children(f"/{name}") == []


async def test_no_log_has_the_password(
    one_zookeeper: ZooKeeperCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "password").write_text("hush-hush")
    access = StoreAccess(endpoints=one_zookeeper.endpoints, user="someone", password_file=tmp_path / "password")
    store = one_zookeeper.store("quiet", access, try_ns=20 * SECOND_NS)
    with caplog.at_level(1):
        assert await store.swap(PUT) is not None
        await store.close()
    assert not [one for one in caplog.records if one.name.startswith("kazoo")]
    assert "hush-hush" not in caplog.text


# ------------------------------------------------------------ certificates


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


@pytest.fixture
def encrypted(authority: Authority, tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    certificate, key = authority.sign("server")
    both = tmp_path / "server.pem"
    both.write_text(key.read_text() + certificate.read_text())
    trusted = tmp_path / "ca.pem"
    trusted.write_text(authority.certificate.read_text())
    settings = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(both),
        "ssl.trustStore.location": str(trusted),
        "ssl.clientAuth": "need",
    }
    cluster = ZooKeeperCluster(
        tmp_path / "encrypted", 1, settings, is_secure=True, more_jars=find_jars(["netty-*.jar"])
    )
    cluster.start_members()
    yield cluster
    cluster.kill()


async def test_certificates(
    encrypted: ZooKeeperCluster, one_zookeeper: ZooKeeperCluster, authority: Authority, tmp_path: Path
) -> None:
    endpoints, ca = encrypted.endpoints, authority.certificate
    certificate, key = authority.sign("client")
    access = StoreAccess(endpoints=endpoints, ca_file=ca, certificate_file=certificate, key_file=key)
    store = encrypted.store("mine", access, try_ns=20 * SECOND_NS)
    await until_it_answers(store)
    for number in range(50):
        assert await store.swap(Swap(unchanged={}, puts={f"entry/{number:04}": bytes(2_000)})) is not None
    async with asyncio.timeout(20):
        assert len(await store.page("entry", limit=100)) == 50
    assert [one.address for one in await store.members()] == [*endpoints]
    await store.close()

    other = Authority(tmp_path, "other")
    strange, strange_key = other.sign("stranger")
    declined = "TLS failed|the connection broke"  # the member ends it, and may not say why
    bad = (
        (StoreAccess(endpoints=endpoints), "no answer in time"),
        (StoreAccess(endpoints=endpoints, ca_file=ca), declined),
        (StoreAccess(endpoints=endpoints, ca_file=ca, certificate_file=strange, key_file=strange_key), declined),
        (StoreAccess(endpoints=one_zookeeper.endpoints, ca_file=ca), declined),
    )
    await asyncio.gather(*(assert_unreachable(encrypted.store("mine", one, try_ns=SECOND_NS), why) for one, why in bad))
    distrusting = encrypted.store("mine", StoreAccess(endpoints=endpoints, ca_file=other.certificate))
    with pytest.raises(StoreUnsuitable, match="is not accepted"):
        await distrusting.get("log/head")
    await distrusting.close()
    with pytest.raises(BadSettings, match="certificates"):
        encrypted.store("mine", StoreAccess(endpoints=endpoints, ca_file=key))


async def assert_unreachable(store: LogStore, why: str) -> None:
    with pytest.raises(Unreachable, match=why):
        await store.get("log/head")
    await store.close()


def test_a_member_keeps_its_data_in_a_directory_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "clüs ter\\t=𝄞"
    cluster = ZooKeeperCluster(folder, 1)
    try:
        cluster.start()
    finally:
        cluster.kill()
    assert [path.name for path in folder.glob("m1/data/version-2")] == ["version-2"]
