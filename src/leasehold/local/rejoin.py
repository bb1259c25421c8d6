"""Starts members of the store of a cluster that was made before, and takes those in again that lost their data.

A member has voted, and has stored what others count as stored. Without its data it would contradict both, and the
newest transactions could be lost. So it begins with nothing only where the others need none of that from it:

| the member | |
| --- | --- |
| has data | starts with it |
| has none, or ends since it can't use it | is taken in again, if all the others work together without it |
| is one of several without data | nothing happens: the others are no quorum |

All the others together, with one of them leading, have all that was ever acknowledged. etcd then gets another member in
its place (`LocalEngine.replace`). A member of ZooKeeper does not vote before it has the data of a leader. What damaged
data there is goes to a folder beside it first. From then on the member is one without data, whatever step of this is
the last one that happens. So a start that was interrupted is repaired by the next one.
"""

import contextlib
import re
import shutil
from collections.abc import Sequence
from typing import Final

from leasehold.durable import sync_folder
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadDirectory, Indefinite, Refused
from leasehold.local.members import LocalMembers
from leasehold.local.patience import ProcessPatience
from leasehold.local.process import Process

DATA: Final = "data"
DAMAGED: Final = "data.damaged"
"""Where the data of a member lies that could not use it, beside `DATA`."""
_OF_THE_MACHINE: Final = re.compile(
    "no space left|permission denied|too many open files|cannot allocate|out of memory|already in use|read-only file",
    re.IGNORECASE,
)
"""Reasons to end that other data would not cure."""


class MemberStart:
    """One start of some of the members. `patience` ends it."""

    def __init__(self, members: LocalMembers, patience: ProcessPatience) -> None:
        self._members = members
        self._patience = patience
        self._all = members.processes()

    def start(self, wanted: Sequence[Process]) -> None:
        """Returns once those that are wanted work with the others, or run where most of the others do not. Raises
        `Refused`: NO_QUORUM if one has lost its data and the others are too few, DID_NOT_START if one ends."""
        names = {one.name for one in wanted}
        lost = [one for one in self._all if not self._members.has_data(one)]
        started = [one for one in self._all if one.name in names and one not in lost and one.running() is None]
        for one in started:
            self._members.start(one, is_new=False)
        lost += self._settle(started)
        if len(lost) > 1 and any(one.name in names for one in lost):
            raise _too_many(lost)
        for one in lost:
            if one.name in names:
                self._take_in(one)

    def _settle(self, started: Sequence[Process]) -> list[Process]:
        """Waits until all that run work together. Returns those that have ended since they can't use their data, as
        soon as there is one."""
        while started:
            if ended := [one for one in started if one.running() is None]:
                if damaged := [one for one in ended if self._is_damaged(one)]:
                    return damaged
                ended[0].check_runs()
            running = self._running()
            if 2 * len(running) <= len(self._all):
                break
            if all(one in running for one in started) and self._members.is_together(running):
                break
            with contextlib.suppress(Refused):  # one has ended
                self._patience.wait("the members of the store to work together", started)
        return []

    def _running(self) -> list[Process]:
        return [one for one in self._all if one.running() is not None and not one.is_paused()]

    def _is_damaged(self, member: Process) -> bool:
        words = member.first_words()
        return self._members.is_damage(words) and not _OF_THE_MACHINE.search(words)

    def _take_in(self, member: Process) -> None:
        others = [one for one in self._all if one is not member]
        for one in others:
            if one.running() is None or one.is_paused():
                paused = one.running() is not None
                raise Refused(
                    f"{member.name} has lost its data, and {one.name}, from which it would get it, "
                    f"{'is paused' if paused else 'does not run'}",
                    code=ErrorCode.NO_QUORUM,
                    hint=f"`leasehold chaos resume {one.name}` first" if paused else "`leasehold up` starts both",
                )
        self._members.stop(member)
        while not self._members.is_together(others):
            self._patience.wait(f"the others, from which {member.name} gets the data that it lost", others)
        _set_aside(member)
        while True:
            try:
                self._members.replace(member, others)
                break
            except Indefinite as error:
                self._patience.wait(f"the others to take {member.name} in again ({error.text})", others)
        self._members.start(member, is_new=False)
        while not self._members.is_together(self._running()):
            self._patience.wait(f"{member.name} to get its data", [member])
        member.check_runs()


def _set_aside(member: Process) -> None:
    """Leaves the member without data."""
    data, damaged = member.directory / DATA, member.directory / DAMAGED
    try:
        if data.exists():
            shutil.rmtree(damaged, ignore_errors=True)
            data.rename(damaged)
            sync_folder(member.directory)
    except OSError as error:
        text = f"{data} can't be renamed to {damaged}: {error.strerror}"
        raise BadDirectory(text, hint="check its owner and mode, or delete it") from error


def _too_many(lost: Sequence[Process]) -> Refused:
    names = ", ".join(one.name for one in lost)
    return Refused(
        f"these members have lost their data, and the others are no quorum: {names}",
        code=ErrorCode.NO_QUORUM,
        hint="put the data back, or make another cluster from what is left with `leasehold recover --from`",
    )
