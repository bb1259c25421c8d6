"""The members of an etcd that `leasehold up` runs for the coordinators of one machine, each with a folder `meta-N`.

Their ports are drawn once and written down before the first member starts, since the members know each other by them.
The number of coordinators stands beside them, for an `up` that follows one that was killed.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings
from leasehold.limits.processes import STORE_MEMBERS
from leasehold.local.files import write_whole
from leasehold.local.ports import LOOPBACK, lasting_ports
from leasehold.local.process import Process

MEMBERS_FILE: Final = "members.json"
PROGRAM_VARIABLE: Final = "LEASEHOLD_ETCD"
LOG_NAME: Final = "cluster"
"""Of the cluster's log: nobody else uses these members."""


class _Member(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    client: int
    """Its port for coordinators."""
    peer: int
    """Its port for the other members."""


class _MembersFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    coordinators: int
    members: dict[str, _Member]


class LocalMembers:
    """All members below the directory of a cluster; none if the file that names them is missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / MEMBERS_FILE

    def draw(self, coordinators: int) -> None:
        """Writes down the members, their ports and how many coordinators share them, unless that has been done."""
        if self._file.exists():
            return
        ports = iter(lasting_ports(2 * STORE_MEMBERS))
        members = {
            f"meta-{number}": _Member(client=next(ports), peer=next(ports)) for number in range(1, STORE_MEMBERS + 1)
        }
        file = _MembersFile(format=1, coordinators=coordinators, members=members)
        write_whole(self._file, msgspec.json.encode(file))

    def coordinators(self) -> int | None:
        """How many coordinators share them; None if there are no members."""
        file = self._read()
        return None if file is None else file.coordinators

    def processes(self) -> list[Process]:
        return [Process(self._directory / name) for name in self._members()]

    def location(self) -> str | None:
        """What a coordinator gets as --meta; None if there are no members."""
        members = self._members()
        addresses = ",".join(f"{LOOPBACK}:{one.client}" for one in members.values())
        return f"etcd://{addresses}/{LOG_NAME}" if members else None

    def start(self, process: Process) -> None:
        """Starts a member; it has joined the others once most of them run."""
        members = self._members()
        own = members[process.name]
        urls = {name: f"http://{LOOPBACK}:{one.peer}" for name, one in members.items()}
        client = f"http://{LOOPBACK}:{own.client}"
        options = {
            "name": process.name,
            "data-dir": str(process.directory / "data"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": urls[process.name],
            "initial-advertise-peer-urls": urls[process.name],
            "initial-cluster": ",".join(f"{name}={url}" for name, url in urls.items()),
            "initial-cluster-token": LOG_NAME,
            "log-level": "warn",
        }
        process.run([find_etcd(), *(f"--{name}={value}" for name, value in options.items())])

    def _members(self) -> dict[str, _Member]:
        file = self._read()
        return {} if file is None else file.members

    def _read(self) -> _MembersFile | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_MembersFile)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise BadDirectory(
                f"{self._file} is damaged: {error}", code=ErrorCode.CORRUPT, hint="restore it, or use another --dir"
            ) from error


def find_etcd() -> str:
    """The program of etcd: `$LEASEHOLD_ETCD`, or the one on the PATH. Raises `BadSettings` where there is none."""
    given = os.environ.get(PROGRAM_VARIABLE)
    found = shutil.which(given or "etcd")
    if found is None:
        what = f"{PROGRAM_VARIABLE} is {given!r}, which is no program" if given else "there is no etcd on the PATH"
        raise BadSettings(
            f"several coordinators need a store to share, and {what}",
            code=ErrorCode.NO_STORE,
            hint="install it, on Debian and Ubuntu with `apt-get install etcd-server`",
        )
    return found
