"""A coordinator and the commands that use its store, when the store says no: each ends or waits with a clear reason,
and writes nothing."""

import asyncio
import contextlib
import http.server
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import grpc
import pytest

from leasehold.client.coordinators import Coordinators
from leasehold.core.words.codec import encode
from leasehold.core.words.records import LogFormatRecord
from leasehold.errors import LeaseholdError
from leasehold.ids import EntryId
from leasehold.local.files import read_address
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.store import EtcdStore
from leasehold.metastorage.log.log import FORMAT, Log
from leasehold.metastorage.log.sqlite_replica import SqliteReplicaPlace
from leasehold.metastorage.log.storage import ReplicatedMetaStorage
from leasehold.metastorage.log.store import Swap
from leasehold.metastorage.sqlite import FILE_NAME, SqliteMetaStorage
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.certificates import Authority
from tests.conformance.store_words import until_it_answers
from tests.e2e.command import Ran, Running, leasehold
from tests.e2e.node_directories import everything_below
from tests.e2e.waiting import wait_until
from tests.etcd_admin import EtcdAdministrator
from tests.etcd_cluster import EtcdCluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

NEWER = LogFormatRecord(format_version=99, log_id=EntryId("1" * 32))


class Silent(http.server.BaseHTTPRequestHandler):
    """A web server that nobody told of coordinators."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


class Ground:
    """Two stores: one with TLS where only `leasehold` with the password `hush` may use the keys below `mine`, and one
    without either. And servers that are no store."""

    def __init__(self, folder: Path, web: str, sink: str) -> None:
        self.folder = folder
        self.web = web
        self.sink = sink
        self.authority = Authority(folder, "ca")
        self.other = Authority(folder, "other")
        self.certificate, self.key = self.authority.sign("server")
        files = ("--cert-file", str(self.certificate), "--key-file", str(self.key))
        self.locked = EtcdCluster(folder / "locked", 1, files, scheme="https")
        self.plain = EtcdCluster(folder / "plain", 1)
        self.second = EtcdCluster(folder / "second", 1)
        self.right, self.wrong = folder / "right", folder / "wrong"
        self.right.write_text("hush\n")
        self.wrong.write_text("loud\n")

    def access(self) -> StoreAccess:
        return StoreAccess(
            endpoints=self.locked.endpoints,
            ca_file=self.authority.certificate,
            user="leasehold",
            password_file=self.right,
        )

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authority.certificate.read_bytes())

    def meta(self, *endpoints: str, name: str = "mine") -> list[str]:
        return ["--meta", f"etcd://{','.join(endpoints)}/{name}"]

    def at_locked(self, password: Path | None, *, ca: Path | None, name: str = "mine") -> list[str]:
        words = self.meta(*self.locked.endpoints, name=name)
        if password is not None:
            words += ["--meta-user", "leasehold", "--meta-password-file", str(password)]
        return words + ([] if ca is None else ["--meta-ca", str(ca)])


@contextlib.contextmanager
def no_stores() -> Iterator[tuple[str, str]]:
    """The addresses of a web server, and of a server that never answers."""
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    serving = threading.Thread(target=web.serve_forever)
    serving.start()
    with socket.create_server(("127.0.0.1", 0)) as sink:
        yield f"127.0.0.1:{web.server_port}", f"127.0.0.1:{sink.getsockname()[1]}"
    web.shutdown()
    serving.join()
    web.server_close()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with no_stores() as (web, sink):
        ground = Ground(tmp_path_factory.mktemp("stores"), web, sink)
        clusters = (ground.locked, ground.plain, ground.second)
        try:
            for one in clusters:
                one.start()
            asyncio.run(prepare(ground))
            yield ground
            asyncio.run(check_untouched(ground))
        finally:
            for one in clusters:
                one.kill()


async def prepare(ground: Ground) -> None:
    async with opened(ground.locked, ground.access()) as store:
        await until_it_answers(store)
    administrator = EtcdAdministrator(ground.locked.endpoints[0], ground.credentials())
    await administrator.enable_users("leasehold", "hush", "mine")
    await administrator.close()
    for key, value, name in (
        (FORMAT, encode(NEWER), "newer"),
        ("log/thesis", b"precious", "foreign"),
    ):
        async with opened(ground.plain, name=name) as store:
            await until_it_answers(store)
            await store.swap(Swap(unchanged={}, puts={key: value}))


async def check_untouched(ground: Ground) -> None:
    """What a command that was refused, or found no store, has left there: nothing."""
    for name, keys in (("mine", []), ("newer", ["format"]), ("foreign", ["thesis"])):
        async with opened(ground.plain, name=name) as store:
            assert [key for key, _ in await store.page("log", limit=9)] == keys
            assert not await store.page("entry", limit=9)


@contextlib.asynccontextmanager
async def opened(
    cluster: EtcdCluster, access: StoreAccess | None = None, name: str = "mine"
) -> AsyncIterator[EtcdStore]:
    store = cluster.store(name, access)
    try:
        yield store
    finally:
        await store.close()


def coordinator(directory: Path, *words: str) -> Ran:
    return leasehold("coordinator", "--listen", "127.0.0.1:0", *words, directory=directory)


Refusal = tuple[Callable[[Ground], list[str]], int, tuple[str, ...]]
REFUSALS: dict[str, Refusal] = {
    "a wrong password": (
        lambda on: on.at_locked(on.wrong, ca=on.authority.certificate),
        3,
        ("STORE_DENIED", "does not accept the user and the password"),
    ),
    "no user": (
        lambda on: on.at_locked(None, ca=on.authority.certificate),
        3,
        ("STORE_DENIED", "wants a user and a password", "meta_password_file"),
    ),
    "no right": (
        lambda on: on.at_locked(on.right, ca=on.authority.certificate, name="of-another"),
        3,
        ("STORE_DENIED", "does not grant this to the user"),
    ),
    "no file of the password": (
        lambda on: on.at_locked(on.folder / "missing", ca=on.authority.certificate),
        2,
        ("BAD_SETTINGS", "missing can't be read"),
    ),
    "another CA": (
        lambda on: on.at_locked(on.right, ca=on.other.certificate),
        3,
        ("STORE_UNSUITABLE", "is not one of the CA", "meta_ca"),
    ),
    "no CA": (lambda on: on.at_locked(on.right, ca=on.key), 2, ("BAD_SETTINGS", "meta_ca")),
    "a web server": (lambda on: on.meta(on.web), 3, ("STORE_UNSUITABLE", "is not etcd", "check the endpoints")),
    "a web server, with TLS": (
        lambda on: [*on.meta(on.web), "--meta-ca", str(on.authority.certificate)],
        3,
        ("STORE_UNSUITABLE", "does not speak TLS", "meta_ca"),
    ),
    "two clusters": (
        lambda on: on.meta(*on.plain.endpoints, *on.second.endpoints),
        3,
        ("STORE_UNSUITABLE", "belongs to another cluster", "name endpoints of one cluster"),
    ),
    "a newer format": (
        lambda on: on.meta(*on.plain.endpoints, name="newer"),
        3,
        ("NEWER_VERSION", "format 99", "run the newer version"),
    ),
}
FOREIGN: Refusal = (
    lambda on: on.meta(*on.plain.endpoints, name="foreign"),
    3,
    ("CORRUPT", "keys of another program", "choose another name"),
)


@pytest.mark.parametrize("refusal", [*REFUSALS, "foreign keys"])
def test_a_coordinator_is_refused(ground: Ground, tmp_path: Path, refusal: str) -> None:
    words, code, said = (REFUSALS | {"foreign keys": FOREIGN})[refusal]
    coordinator(tmp_path / "new", *words(ground)).refused(code, *said)
    assert everything_below(tmp_path / "new") == {}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_recovery_is_refused(ground: Ground, refusal: str) -> None:
    words, code, said = REFUSALS[refusal]
    leasehold("recover", *words(ground)).refused(code, *said)


@pytest.mark.parametrize("refusal", ["another CA", "two clusters"])
def test_a_restore_is_refused(ground: Ground, tmp_path: Path, refusal: str) -> None:
    words, code, said = REFUSALS[refusal]
    leasehold("restore", str(tmp_path), *words(ground)).refused(code, *said)


def test_a_restore_gives_up_a_store_that_does_not_answer(ground: Ground, tmp_path: Path) -> None:
    for words, said in (
        (ground.meta("127.0.0.1:1"), "127.0.0.1:1: nothing listens there"),
        (ground.meta(ground.sink), f"{ground.sink}: "),
        (ground.at_locked(ground.right, ca=None), "perhaps it speaks TLS only"),
        ([*ground.meta(*ground.plain.endpoints), "--meta-ca", str(ground.authority.certificate)], "not speak TLS"),
    ):
        leasehold("restore", str(tmp_path), *words, "--timeout", "1ms").refused(5, "UNREACHABLE", said)


def test_an_expired_certificate(ground: Ground, tmp_path: Path) -> None:
    ground.authority.sign("server", days=0)  # etcd reads the file again for each connection
    try:
        words = ground.at_locked(ground.right, ca=ground.authority.certificate)
        coordinator(tmp_path / "new", *words).refused(3, "STORE_UNSUITABLE", "has expired", "renew it")
        assert everything_below(tmp_path / "new") == {}
    finally:
        ground.authority.sign("server")


def test_a_directory_of_another_store_or_of_none(ground: Ground, tmp_path: Path) -> None:
    here = ground.meta(*ground.plain.endpoints, name="here")
    one, alone = tmp_path / "one", tmp_path / "alone"
    one.mkdir()
    alone.mkdir()
    asyncio.run(make_directories(ground, one, alone))
    before = stored_below(tmp_path)
    elsewhere = ground.meta(*ground.plain.endpoints)
    coordinator(one, *elsewhere).refused(3, "OTHER_LOG", "check --meta", "there is none")
    coordinator(one, *ground.meta(*ground.second.endpoints, name="here")).refused(3, "OTHER_LOG")
    coordinator(one).refused(3, "BAD_DIRECTORY")
    coordinator(alone, *here).refused(3, "BAD_DIRECTORY")
    assert stored_below(tmp_path) == before


async def make_directories(ground: Ground, shared: Path, alone: Path) -> None:
    """Of a coordinator that shares the log `here`, and of one that shares nothing."""
    made = Log(ground.plain.store("here"))
    storage = await ReplicatedMetaStorage.open(made, SqliteReplicaPlace(shared), BoottimeClock(), SystemEntropy())
    await storage.close()
    await (await SqliteMetaStorage.open(alone / FILE_NAME)).close()


def stored_below(directory: Path) -> dict[str, bytes]:
    """Without the files that tell the process that looked last."""
    return {path: blob for path, blob in everything_below(directory).items() if not path.endswith(".lock")}


def test_several_coordinators_need_a_store(tmp_path: Path) -> None:
    nothing = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path), "LEASEHOLD_ETCD": ""}
    up = leasehold("up", "--detach", "--coordinators", "3", directory=tmp_path / "new", **nothing)
    up.refused(2, "NO_STORE", "apt-get install etcd-server", "Java 17")
    leasehold("up", "--detach", "--coordinators", "2", directory=tmp_path / "new").refused(2, "1, 3, 5")
    assert not (tmp_path / "new").exists()


# ------------------------------------------------------------ waiting


def why_not(directory: Path) -> str:
    """What the coordinator of a directory says of itself, if it does not lead."""
    address = read_address(directory)
    if address is None:
        return ""
    try:
        with Coordinators(address) as asked:
            asked.whoami()
    except LeaseholdError as error:
        return f"{error.code}: {error.text}; {error.hint}"
    return "LEADS"


def test_a_coordinator_waits_for_a_store_that_is_not_up_and_says_so(tmp_path: Path) -> None:
    """As a supervisor starts it, together with the members of its store."""
    cluster, directory = EtcdCluster(tmp_path / "late", 3), tmp_path / "one"
    one, two, _ = cluster.servers.values()
    words = ["--listen", "127.0.0.1:0", "--meta", f"etcd://{','.join(cluster.endpoints)}/mine"]
    try:
        with Running("coordinator", *words, directory=directory) as running:
            running.wait_until_it_says("nothing listens there")
            wait_until(lambda: "nothing listens there" in why_not(directory))
            assert why_not(directory).startswith(("NO_QUORUM", "UNREACHABLE"))
            assert all(address in why_not(directory) for address in cluster.endpoints)
            one.start()
            # A member without the others takes connections, and makes none of them.
            late = re.compile(re.escape(one.address) + ": (no answer|the connection could not be made) in time")
            wait_until(lambda: late.search(why_not(directory)) is not None)
            assert "start the members of etcd that do not answer" in why_not(directory)
            two.start()
            wait_until(lambda: "NOT_INITIALISED" in why_not(directory))
            assert running.runs()
    finally:
        cluster.kill()


def test_a_coordinator_that_leads_stands_by_while_its_password_is_wrong(ground: Ground, tmp_path: Path) -> None:
    directory, password = tmp_path / "one", tmp_path / "password"
    password.write_text("hush")
    words = ["--listen", "127.0.0.1:0", *ground.at_locked(password, ca=ground.authority.certificate)]

    def rotate(to: str) -> None:
        async def change() -> None:
            administrator = EtcdAdministrator(ground.locked.endpoints[0], ground.credentials())
            await administrator.log_in()
            await administrator.end_tokens("leasehold", to)
            await administrator.close()

        asyncio.run(change())

    with Running("coordinator", *words, directory=directory) as running:
        wait_until(lambda: "NOT_INITIALISED" in why_not(directory))
        address = read_address(directory)
        assert address is not None
        leasehold("init", address, "-o", "json").json()
        rotate("changed")
        wait_until(lambda: "does not accept the user and the password" in why_not(directory))
        running.wait_until_it_says("can't lead: etcd at")
        password.write_text("changed")
        wait_until(lambda: why_not(directory) == "LEADS")
        told = leasehold("status", "-o", "json", directory=Path(address)).json()
        assert told["term"] > 1
        assert told["store_warnings"] == asyncio.run(warnings(ground))
        for warning in told["store_warnings"]:
            assert f"WARNING: {warning}" in leasehold("status", directory=Path(address)).out
    rotate("hush")


async def warnings(ground: Ground) -> list[str]:
    """Of the release of etcd that this machine has."""
    async with opened(ground.plain) as store:
        found = [one.warning for one in await store.members() if one.warning]
    return [one.replace(ground.plain.endpoints[0], ground.locked.endpoints[0]) for one in found]
