"""Real members of etcd that want a user or a certificate."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from leasehold.errors import Unreachable
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.etcd.client import EtcdAccess
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.log.store import StoreDenied, Swap
from tests.conformance.etcd_words import until_it_answers
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
        access = EtcdAccess(endpoints=one.endpoints, user=user, password_file=tmp_path / password)
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
    assert await before.page("log", limit=1)
    assert len(await before.members()) == 1
    assert not (await before.size()).is_full
    await watch.aclose()
    await before.close()
    await administrator.close()


# ------------------------------------------------------------ certificates


class Authority:
    """A CA, and what it signed."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.crt"
        self._openssl("req", "-x509", *self._new_key(name), "-out", str(self.certificate), "-subj", f"/CN={name}")

    def sign(self, name: str, *, days: int = 2) -> tuple[Path, Path]:
        """The files of a certificate for 127.0.0.1, and of its key."""
        request, certificate, extensions = (self._folder / f"{name}.{kind}" for kind in ("csr", "crt", "ext"))
        extensions.write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        self._openssl("req", *self._new_key(name), "-out", str(request), "-subj", f"/CN={name}")
        self._openssl(
            *("x509", "-req", "-in", str(request), "-out", str(certificate), "-extfile", str(extensions)),
            *("-CA", str(self.certificate), "-CAkey", str(self._folder / f"{self._name}.key"), "-CAcreateserial"),
            *("-days", str(days)),
        )
        return certificate, self._folder / f"{name}.key"

    def _new_key(self, name: str) -> tuple[str, ...]:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*curve, "-keyout", str(self._folder / f"{name}.key"))

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("NO OPENSSL")
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
    access = EtcdAccess(endpoints=endpoints, ca_file=ca, certificate_file=certificate, key_file=key)
    store = encrypted.store("mine", access)
    await until_it_answers(store)
    assert await store.swap(PUT) is not None
    (member,) = await store.members()
    assert member.address == endpoints[0]
    await store.close()

    other = Authority(tmp_path, "other")
    strange, strange_key = other.sign("stranger")
    encrypted_by_none = EtcdAccess(endpoints=one.endpoints, ca_file=ca)
    bad = (
        (EtcdAccess(endpoints=endpoints), "perhaps it speaks TLS only"),
        (EtcdAccess(endpoints=endpoints, ca_file=ca), "TLS failed"),
        (EtcdAccess(endpoints=endpoints, ca_file=ca, certificate_file=strange, key_file=strange_key), "TLS failed"),
        (EtcdAccess(endpoints=endpoints, ca_file=key), "TLS failed"),
        (EtcdAccess(endpoints=endpoints, ca_file=other.certificate), "its certificate is not one of the CA"),
        (encrypted_by_none, "it does not speak TLS"),
    )
    await asyncio.gather(*(assert_unreachable(encrypted.store("mine", one), why) for one, why in bad))
    authority.sign("server", days=0)  # etcd reads the file again for each connection
    await assert_unreachable(encrypted.store("mine", access), "its certificate has expired")


async def assert_unreachable(store: EtcdStore, why: str) -> None:
    with pytest.raises(Unreachable) as caught:
        await store.get("log/head")
    assert why in caught.value.text
    await store.close()
