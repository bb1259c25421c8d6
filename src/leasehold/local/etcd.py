"""The etcd that `leasehold up` runs: its program, the command of a member, and the login that it demands."""

import asyncio
import itertools
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.local.engine import LocalMember
from leasehold.local.ports import LOOPBACK
from leasehold.metastorage.etcd.endpoint import EtcdEndpoint
from leasehold.metastorage.etcd.statuses import TryFailed
from leasehold.metastorage.etcd.users import ROOT, demand_login

PROGRAM_VARIABLE: Final = "LEASEHOLD_ETCD"


class LocalEtcd:
    """Implements `LocalEngine`."""

    scheme: str = "etcd"
    user: str = ROOT
    quota: str | None = None

    def check(self) -> None:
        """As `find_etcd`."""
        find_etcd()

    def command(self, directory: Path, members: Mapping[str, LocalMember], token: str) -> list[str]:
        """As `LocalEngine.command`."""
        name = directory.name
        urls = {one: f"http://{LOOPBACK}:{member.peer}" for one, member in members.items()}
        client = f"http://{LOOPBACK}:{members[name].client}"
        options = {
            "name": name,
            "data-dir": str(directory / "data"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": urls[name],
            "initial-advertise-peer-urls": urls[name],
            "initial-cluster": ",".join(f"{one}={url}" for one, url in urls.items()),
            "initial-cluster-token": token,
            "log-level": "warn",
        }
        return [find_etcd(), *(f"--{one}={value}" for one, value in options.items())]

    def protect(self, addresses: Sequence[str], password: str, wait: Callable[[str], None]) -> None:
        """As `LocalEngine.protect`. Raises `StoreDenied` if they have another password."""
        for address in itertools.cycle(addresses):
            try:
                asyncio.run(_demand_login(address, password))
            except TryFailed as failed:
                wait(f"the members of etcd to work together ({failed.reason})")
            else:
                break


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
