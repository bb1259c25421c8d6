"""The members of the store that `leasehold up` runs for the coordinators of one machine, each with a folder `meta-N`.

Their ports are drawn once and written down before the first member starts, since the members know each other by them.
The number of coordinators stands beside them, for an `up` that follows one that was killed. The members let in only
who knows a password, which lies in a file for the owner of the cluster.

**A member that lost its data** must not go on as if it had never had any: what it voted for and stored counts with the
others. The cluster's own file is written after the members have worked together. From then on a member without data is
one that lost it, and joins through the others (`rejoin`).
"""

import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, BadSettings, Refused
from leasehold.ids import NODE_NAME
from leasehold.limits.processes import CLUSTER_FILE_BYTES_MAX, CONFIG_SHOWN_MAX, STOP_WAIT_NS, STORE_MEMBERS
from leasehold.limits.units import SECOND_NS
from leasehold.local.engine import LocalEngine, LocalMember
from leasehold.local.etcd import LocalEtcd
from leasehold.local.files import write_whole
from leasehold.local.ports import LOOPBACK, lasting_ports
from leasehold.local.process import Process
from leasehold.local.zookeeper import LocalZooKeeper
from leasehold.metastorage.access import StoreAccess
from leasehold.private_files import read_if_there

MEMBERS_FILE: Final = "members.json"
PASSWORD_FILE: Final = "members.password"  # noqa: S105 - the name of a file
LOG_NAME: Final = "cluster"
"""Of the cluster's log: nobody else uses these members."""
_PASSWORD_BYTES: Final = 16
_RESTORE: Final = "restore it, or use another --dir"


class _MembersFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    engine: str = "etcd"
    coordinators: int
    members: dict[str, LocalMember]


_ENGINES: Final[tuple[LocalEngine, ...]] = (LocalEtcd(), LocalZooKeeper())
ENGINES: Final = {one.scheme: one for one in _ENGINES}
"""In the order in which they are preferred."""


class LocalMembers:
    """All members below the directory of a cluster; none if the file that names them is missing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / MEMBERS_FILE
        self._password_file = directory / PASSWORD_FILE

    def choose(self, coordinators: int | None, meta: str | None) -> LocalEngine | None:
        """The store that so many coordinators will share: the one that they have, else `meta`, else the first that can
        run here; None for one coordinator. Raises `BadSettings` (NO_STORE) if it can't run here, and `Refused` if they
        have another than `meta`."""
        file = self._read()
        if meta is not None and (coordinators or (file and file.coordinators)) in {None, 1}:
            raise BadSettings("one coordinator shares its meta storage with nobody", hint="give --coordinators 3 too")
        if meta is not None and file is not None and meta != file.engine:
            raise Refused(
                f"the cluster in {self._directory} has its meta storage in {file.engine}",
                code=ErrorCode.OTHER_COORDINATORS,
                hint="leave out --meta, or choose another --dir for a new cluster",
            )
        if file is None and coordinators in {None, 1}:
            return None
        wanted = file.engine if file is not None else meta
        return _usable(list(ENGINES.values()) if wanted is None else [ENGINES[wanted]])

    def draw(self, engine: LocalEngine, coordinators: int) -> None:
        """Writes down the members, their ports, their password, and how many coordinators share them, unless that has
        been done."""
        if self._file.exists():
            return
        ports = iter(lasting_ports(3 * STORE_MEMBERS))
        members = {
            f"meta-{number}": LocalMember(client=next(ports), peer=next(ports), election=next(ports))
            for number in range(1, STORE_MEMBERS + 1)
        }
        write_whole(self._password_file, secrets.token_hex(_PASSWORD_BYTES).encode())
        file = _MembersFile(format=2, engine=engine.scheme, coordinators=coordinators, members=members)
        write_whole(self._file, msgspec.json.encode(file))

    def coordinators(self) -> int | None:
        """How many coordinators share them; None if there are no members."""
        file = self._read()
        return None if file is None else file.coordinators

    def processes(self) -> list[Process]:
        file = self._read()
        return [] if file is None else [Process(self._directory / name) for name in file.members]

    def settings(self) -> dict[str, str]:
        """The settings by which a coordinator reaches them; none if there are no members."""
        file = self._read()
        if file is None:
            return {}
        found = {"meta": f"{file.engine}://{','.join(_addresses(file))}/{LOG_NAME}"}
        engine = ENGINES[file.engine]
        if self._password_file.exists():
            found |= {"meta_user": engine.user, "meta_password_file": str(self._password_file)}
        if engine.quota is not None:
            found["meta_quota"] = engine.quota
        return found

    def words(self) -> list[str]:
        """The settings as options of a command."""
        return [word for name, value in self.settings().items() for word in (f"--{name.replace('_', '-')}", value)]

    def start(self, process: Process, *, is_new: bool) -> None:
        """Starts a member; it has joined the others once most of them run. Only in a new cluster it may begin without
        data."""
        file = self._members_file()
        process.run(ENGINES[file.engine].command(process.directory, file.members, LOG_NAME, is_new=is_new))

    def stop(self, process: Process) -> None:
        """Ends a member, also one whose directory was deleted while it ran, and with it the file that names its
        process."""
        process.stop()
        engine = self._engine()
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if engine.is_member(one.cmdline(), process.directory):
                    one.kill()
                    one.wait(STOP_WAIT_NS / SECOND_NS)

    def are_whole(self) -> bool:
        """Whether all run, and have data."""
        return all(one.running() is not None and self.has_data(one) for one in self.processes())

    def has_data(self, process: Process) -> bool:
        """As `LocalEngine.has_data`."""
        return self._engine().has_data(process.directory)

    def is_damage(self, words: str) -> bool:
        """As `LocalEngine.is_damage`."""
        return self._engine().is_damage(words)

    def is_together(self, processes: Sequence[Process]) -> bool:
        """As `LocalEngine.is_together`."""
        return self._engine().is_together(self.access(processes))

    def replace(self, process: Process, others: Sequence[Process]) -> None:
        """As `LocalEngine.replace`."""
        self._engine().replace(self._members_file().members[process.name], self.access(others))

    def protect(self, wait: Callable[[str], None]) -> None:
        """As `LocalEngine.protect`, for members that run."""
        file = self._read()
        if file is not None and self._password_file.exists():
            ENGINES[file.engine].protect(_addresses(file), self._password_file.read_text(), wait)

    def _engine(self) -> LocalEngine:
        return ENGINES[self._members_file().engine]

    def access(self, processes: Sequence[Process]) -> StoreAccess:
        """Where these members are, and how they know their user."""
        members = self._members_file().members
        has_login = self._password_file.exists()
        return StoreAccess(
            endpoints=tuple(f"{LOOPBACK}:{members[one.name].client}" for one in processes),
            user=self._engine().user if has_login else None,
            password_file=self._password_file if has_login else None,
        )

    def _members_file(self) -> _MembersFile:
        file = self._read()
        assert file is not None, "there are members"
        return file

    def _read(self) -> _MembersFile | None:
        content = read_if_there(self._file, CLUSTER_FILE_BYTES_MAX, self._unusable, _RESTORE)
        if content is None:
            return None
        try:
            file = msgspec.json.decode(content, type=_MembersFile)
        except (ValueError, msgspec.MsgspecError) as error:
            raise self._damaged(str(error)) from error
        if file.engine not in ENGINES:
            raise self._damaged(f"there is no store {file.engine!r}")
        for name in file.members:  # that of its folder, which must not be elsewhere
            if NODE_NAME.fullmatch(name) is None:
                raise self._damaged(f"a process can't have the name {name!r}")
        return file

    def _damaged(self, why: str) -> BadDirectory:
        return self._unusable(f"is damaged: {why[:CONFIG_SHOWN_MAX]}", _RESTORE)

    def _unusable(self, text: str, hint: str) -> BadDirectory:
        return BadDirectory(f"{self._file} {text}", code=ErrorCode.CORRUPT, hint=hint)


def _addresses(file: _MembersFile) -> list[str]:
    return [f"{LOOPBACK}:{one.client}" for one in file.members.values()]


def _usable(engines: Sequence[LocalEngine]) -> LocalEngine:
    refused: list[BadSettings] = []
    for engine in engines:
        try:
            engine.check()
        except BadSettings as error:
            refused.append(error)
        else:
            return engine
    raise BadSettings(
        f"several coordinators need a store to share: {'; '.join(error.text for error in refused)}",
        code=ErrorCode.NO_STORE,
        hint="; or ".join(error.hint for error in refused),
    )
