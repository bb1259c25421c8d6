"""The etcd that `leasehold up` runs: its program, the command of a member, and the login that it demands."""

import asyncio
import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, Indefinite
from leasehold.limits.etcd import ETCD_MEMBERSHIP_NS
from leasehold.local.engine import LocalMember
from leasehold.local.ports import LOOPBACK
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.endpoint import EtcdEndpoint
from leasehold.metastorage.etcd.membership import replace_member
from leasehold.metastorage.etcd.statuses import TryFailed
from leasehold.metastorage.etcd.users import ROOT, demand_login
from leasehold.wire.clock import BoottimeClock

PROGRAM_VARIABLE: Final = "LEASEHOLD_ETCD"
_DAMAGE: Final = re.compile(
    r"^panic: |^fatal error: fault|crc mismatch|walpb: |wal: (?!ignored)|snap: |invalid database|failed to read WAL",
    re.MULTILINE,
)


class LocalEtcd:
    """Implements `LocalEngine`."""

    scheme: str = "etcd"
    user: str = ROOT
    quota: str | None = None

    def check(self) -> None:
        """As `find_etcd`."""
        find_etcd()

    def command(self, directory: Path, members: Mapping[str, LocalMember], token: str, *, is_new: bool) -> list[str]:
        """As `LocalEngine.command`."""
        name = directory.name
        urls = {one: _peer_url(member) for one, member in members.items()}
        client = f"http://{LOOPBACK}:{members[name].client}"
        options = {
            "name": name,
            "data-dir": str(directory / "data"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": urls[name],
            "initial-advertise-peer-urls": urls[name],
            "initial-cluster": ",".join(f"{one}={url}" for one, url in urls.items()),
            "initial-cluster-state": "new" if is_new else "existing",
            "initial-cluster-token": token,
            "log-level": "warn",
            # Nobody guesses a random password, however fast a try is; a slow login is late on a busy machine.
            "bcrypt-cost": "4",
        }
        return [find_etcd(), *(f"--{one}={value}" for one, value in options.items())]

    def is_member(self, command: Sequence[str], directory: Path) -> bool:
        """As `LocalEngine.is_member`."""
        return f"--data-dir={directory / 'data'}" in command

    def has_data(self, directory: Path) -> bool:
        """As `LocalEngine.has_data`. Without a log of its own, etcd begins as one that never was a member."""
        return any((directory / "data/member/wal").glob("*.wal"))

    def is_damage(self, words: str) -> bool:
        """As `LocalEngine.is_damage`."""
        return _DAMAGE.search(words) is not None

    def is_together(self, access: StoreAccess) -> bool:
        """As `LocalEngine.is_together`."""
        return asyncio.run(_is_together(access))

    def replace(self, member: LocalMember, others: StoreAccess) -> None:
        """As `LocalEngine.replace`."""
        asyncio.run(_replace(_peer_url(member), others))

    def protect(self, addresses: Sequence[str], password: str, wait: Callable[[str], None]) -> None:
        """As `LocalEngine.protect`. Raises `StoreDenied` if they have another password."""
        for address in itertools.cycle(addresses):
            try:
                asyncio.run(_demand_login(address, password))
            except TryFailed as failed:
                wait(f"the members of etcd to work together ({failed.reason})")
            else:
                break


def _peer_url(member: LocalMember) -> str:
    return f"http://{LOOPBACK}:{member.peer}"


async def _is_together(access: StoreAccess) -> bool:
    client = EtcdClient(access, BoottimeClock())
    try:
        statuses = await client.statuses()
    except Indefinite:
        return False
    finally:
        await client.close()
    leaders = {status.leader for status in statuses}
    return len(statuses) == len(access.endpoints) and leaders <= {status.header.member_id for status in statuses}


async def _replace(peer_url: str, others: StoreAccess) -> None:
    clock = BoottimeClock()
    async with contextlib.AsyncExitStack() as stack:
        clients: list[EtcdClient] = []
        for address in others.endpoints:
            access = msgspec.structs.replace(others, endpoints=(address,))
            client = EtcdClient(access, clock, try_ns=ETCD_MEMBERSHIP_NS)
            stack.push_async_callback(client.close)
            clients.append(client)
        await replace_member(clients, peer_url, clock)


async def _demand_login(address: str, password: str) -> None:
    endpoint = EtcdEndpoint(address, None)
    try:
        await demand_login(endpoint, password)
    finally:
        await endpoint.close()


def find_etcd() -> str:
    """The program of etcd: `$LEASEHOLD_ETCD`, or the one on the PATH. Raises `BadSettings` where there is none."""
    given = os.environ.get(PROGRAM_VARIABLE)
    found = shutil.which(given or "etcd")
    if found is None:
        what = f"{PROGRAM_VARIABLE} is {given!r}, which is no program" if given else "there is no etcd on the PATH"
        hint = "install etcd, on Debian and Ubuntu with `apt-get install etcd-server`"
        raise BadSettings(what, code=ErrorCode.NO_STORE, hint=hint)
    return found
