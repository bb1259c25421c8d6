"""The node's side of local opens: who holds which links until when, and which of them a view takes away.

An open that has ended stays here until its links are gone: a view that it forbids is not reported before.

| state   | event                                        | next    |
| ------- | -------------------------------------------- | ------- |
| none    | begin                                        | making  |
| making  | extended on a view that allows it            | open    |
| open    | extended on a view that allows it            | open    |
| making, open | a view that forbids it; it is released or failed | ending |
| open    | its deadline                                 | ending  |
| ending  | its links are gone                           | none    |

No lock is held here: whoever calls has one (`core/local/reads.py`).
"""

from collections import Counter, OrderedDict
from operator import attrgetter, is_
from typing import Final, NamedTuple

import msgspec

from leasehold.core.access.request_rights import check_read
from leasehold.core.catalog.catalog import Catalog, check_through
from leasehold.core.data.cutoff import check_decided, expiry, rows_taken_away
from leasehold.core.data.read_access import check_columns, columns_in_use
from leasehold.core.data.requests import check_generation, table_in_use
from leasehold.core.lease.holder import Pass
from leasehold.core.membership.identity import hash_secret
from leasehold.core.words.messages import Cutoff, OpenLocal
from leasehold.core.words.records import TableRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import LeaseholdError, Refused
from leasehold.ids import FieldId, NodeLogin
from leasehold.limits.local import LOCAL_ENDS_KEPT_MAX, LOCAL_OPENS_MAX, LOCAL_OPENS_PER_USER_MAX


class Allowed(NamedTuple):
    """The parts of a view that `check_lasting` read when it allowed an open. A catalog keeps records and maps that a
    revision does not change as the same objects. So a part of the check whose objects are the same passes again."""

    rights: tuple[object, ...]
    table: TableRecord
    rows: tuple[object, ...]


class DroppedColumns:
    """The columns that a table has in use by one record and not by another. Remembers the last answer: all opens of a
    table ask for the same one."""

    def __init__(self) -> None:
        self._last: tuple[TableRecord, TableRecord, frozenset[FieldId]] | None = None

    def between(self, before: TableRecord, after: TableRecord) -> frozenset[FieldId]:
        if self._last is None or self._last[0] is not before or self._last[1] is not after:
            self._last = before, after, columns_in_use(before) - columns_in_use(after)
        return self._last[2]


def check_lasting(
    request: OpenLocal,
    login: NodeLogin | None,
    view: Catalog,
    allowed: Allowed | None = None,
    dropped: DroppedColumns | None = None,
) -> Allowed:
    """Raises why an open may not go on by a view: the errors of a scan, ROWS_TAKEN_AWAY for any DELETE or shorter TTL
    that is newer than the plan, whichever rows it takes, and NOT_LOCAL where the cluster's setting forbids it.

    `allowed` is the answer of the last view that has allowed this open. Each revision runs this for all opens, so what
    has not changed since that view is not checked again.
    """
    rights = _rights_read(request, login, view)
    if allowed is None or not _are_same(rights, allowed.rights):
        if view.cluster is not None and not view.cluster.local_reads:
            raise Refused("the setting local_reads is off", code=ErrorCode.NOT_LOCAL, hint="make the frame again")
        check_generation(request.generation, view)
        check_read(login, request.table, request.through, view)
        check_through(request.through, view)
    table = table_in_use(view, request.table)
    if allowed is None:
        check_columns(request.fields, table, view)
    elif table is not allowed.table:
        gone = (dropped or DroppedColumns()).between(allowed.table, table)
        if gone and not gone.isdisjoint(map(_ID, request.fields)):
            check_columns(request.fields, table, view)
    rows = view.deletes.get(table.id), view.horizons.get(table.id)
    if allowed is None or not _are_same(rows, allowed.rows):
        _check_rows(request.cutoff, table, view)
    return Allowed(rights, table, rows)


_ID: Final = attrgetter("id")


def _rights_read(request: OpenLocal, login: NodeLogin | None, view: Catalog) -> tuple[object, ...]:
    """All of a view that the setting, the generation, the rights, and the views that the table is read through are
    decided by. Of the users only whether there are any counts, and of the logins only this one: both maps change
    whenever somebody else logs in."""
    shown = None if login is None else view.logins.get(hash_secret(login))
    table = view.tables.get(request.table)
    return view.cluster, len(view.users) > 0, shown, view.principals, view.grants, view.views, table


def _check_rows(cutoff: Cutoff, table: TableRecord, view: Catalog) -> None:
    name, deletes = str(view.table_name(table)), view.deletes.get(table.id) or {}
    check_decided(cutoff, deletes, name)
    if any(number > cutoff.deletes for number in deletes):
        raise rows_taken_away(name, "rows were deleted")
    if expiry(cutoff, view.horizons.get(table.id))[1] is not None:
        raise rows_taken_away(name, "a shorter TTL was set")


def _are_same(now: tuple[object, ...], before: tuple[object, ...]) -> bool:
    return all(map(is_, now, before))


class _Open(msgspec.Struct):
    request: OpenLocal
    user: str
    login: NodeLogin | None
    deadline_ns: int | None = None
    """None while its links are made."""
    allowed: Allowed | None = None
    """By the last view that was checked."""


class LocalOpens:
    """All opens of one process."""

    def __init__(self) -> None:
        self._opens: dict[str, _Open] = {}
        self._ending: dict[str, None] = {}
        self._ends: OrderedDict[str, LeaseholdError] = OrderedDict()
        self._dropped = DroppedColumns()

    def begin(self, request: OpenLocal, user: str) -> None:
        """An open whose links are made now. Raises `Refused`: BUSY, BAD_TICKET."""
        if request.request in self._opens or request.request in self._ends:
            raise Refused("an open has this id already", code=ErrorCode.BAD_TICKET, hint="draw another id")
        of_user = Counter(one.user for one in self._opens.values())
        if len(self._opens) + len(self._ending) >= LOCAL_OPENS_MAX or of_user[user] >= LOCAL_OPENS_PER_USER_MAX:
            raise Refused(
                f"{of_user[user]} reads of this user have opened files here, of {len(self._opens)} in all",
                code=ErrorCode.BUSY,
                hint=f"at most {LOCAL_OPENS_PER_USER_MAX} of a user and {LOCAL_OPENS_MAX} in all may: close frames that"
                " are not needed any more",
            )
        self._opens[request.request] = _Open(request, user, request.login)

    def extend(self, request: str, login: NodeLogin | None, user: str, passed: Pass[Catalog]) -> int:
        """Extends an open to the deadline of a lease; what is left of that. Raises why it has ended, or ends now."""
        found = self.check_open(request)
        if user != found.user:
            raise Refused("this open is another user's", code=ErrorCode.LOCAL_ENDED, hint="open the files again")
        try:
            found.allowed = check_lasting(found.request, login, passed.view, found.allowed, self._dropped)
        except LeaseholdError as error:
            if login == found.login:  # another login of the user may be limited to another table
                self.end(request, error)
            raise
        found.login, found.deadline_ns = login, passed.lease.deadline_ns
        return passed.lease.deadline_ns - passed.released_ns

    def release(self, request: str, login: NodeLogin | None) -> None:
        """Ends an open of this login. That of another stays: its id is no secret."""
        found = self._opens.get(request)
        if found is not None and found.login == login:
            self.end(request, _ended("its reader has closed it"))

    def end(self, request: str, why: LeaseholdError) -> None:
        """Ends an open, if it has not ended."""
        if self._opens.pop(request, None) is None:
            return
        self._ending[request] = None
        self._ends[request] = why
        while len(self._ends) > LOCAL_ENDS_KEPT_MAX:
            self._ends.popitem(last=False)

    def end_all(self) -> None:
        """Ends all opens: the node serves nothing any more."""
        for request in tuple(self._opens):
            self.end(request, _ended("its node stops"))

    def viewed(self, view: Catalog) -> None:
        """Ends all opens that a view forbids."""
        for request, one in tuple(self._opens.items()):
            try:
                one.allowed = check_lasting(one.request, one.login, view, one.allowed, self._dropped)
            except LeaseholdError as error:
                self.end(request, error)

    def time_passed(self, now_ns: int) -> None:
        """Ends all opens whose deadline has passed."""
        for request, one in tuple(self._opens.items()):
            if one.deadline_ns is not None and now_ns >= one.deadline_ns:
                self.end(request, _ended("its sub-lease was not renewed in time"))

    def to_remove(self) -> tuple[str, ...]:
        """The opens that have ended and whose links may still be there."""
        return tuple(self._ending)

    def removed(self, request: str) -> None:
        """The links of an open are gone."""
        self._ending.pop(request, None)

    def check_open(self, request: str) -> "_Open":
        """Raises why an open has ended."""
        found = self._opens.get(request)
        if found is None:
            raise self._ends.get(request) or _ended("this process of the node does not know it")
        return found


def _ended(why: str) -> Refused:
    return Refused(f"the open has ended: {why}", code=ErrorCode.LOCAL_ENDED, hint="make the frame again")
