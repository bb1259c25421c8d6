"""Delegated logins: a user's login for other processes that does less than the user may, and ends by itself.

Who has it may read one table, through the views that the login names, or write to one table in one write transaction.
The rights of its user count besides, at each moment, so it never does more than the user may. Everything else is
refused: a request that is not in this table has no rule, and so is not for a delegated login. Once the record of an
ended transaction is purged, its id counts as new: a login to write opens no transaction that the catalog does not know.

| request | a login to read | a login to write |
| --- | --- | --- |
| the table's facts | of its table | of its table |
| a plan, a cutoff, a scan | of its table through its views | no; of its table if it may replace rows |
| a plan of changes | of its table, if it names no views | no; of its table if it may replace rows |
| a write transaction: to open again, commit, abort; rows | no | its own, on its table; it replaces rows if it may |
| any other: statements, questions, other logins | no | no |

What ends the login with which it was asked for (the user's token, certificates off, the password, DROP USER) ends it as
well. It ends at `expires_us` too, by the wall clock that the leader believes.
"""

from leasehold.core.access.rights import Asker
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.membership.identity import SECRET_HASH_BYTES
from leasehold.core.words import messages
from leasehold.core.words.records import LoginLimits, TransactionState
from leasehold.core.words.statements import TableName
from leasehold.error_codes import ErrorCode
from leasehold.errors import Forbidden, Refused
from leasehold.ids import ObjectId, TransactionId
from leasehold.limits.statements import QUERY_TABLES_MAX


def check_within(asker: Asker, request: messages.ClientRequest, catalog: Catalog) -> None:
    """Raises `Forbidden` unless the limits of the login allow the request."""
    limits = asker.limits
    if limits is not None and not _is_within(limits, request, catalog):
        raise _outside(asker)


def check_scan_within(asker: Asker, table: ObjectId, through: tuple[ObjectId, ...]) -> None:
    """Raises `Forbidden` unless the limits of the login allow to read the table through these views."""
    if asker.limits is not None and not _reads(asker.limits, table, through):
        raise _outside(asker)


def check_write_within(asker: Asker, table: ObjectId, transaction: TransactionId) -> None:
    """Raises `Forbidden` unless the limits of the login allow to add rows to the table in this transaction."""
    if asker.limits is not None and not _writes(asker.limits, table, transaction):
        raise _outside(asker)


def check_delegation(request: messages.DelegateLogin, catalog: Catalog) -> None:
    """Raises `Refused` for a login to write in a transaction that is not open on the table, for too many views, and for
    what is no hash of the secret of an application."""
    if len(request.application) not in {0, SECRET_HASH_BYTES}:
        text = f"the hash of an application has {SECRET_HASH_BYTES} bytes, and this one {len(request.application)}"
        raise Refused(text, code=ErrorCode.BAD_MESSAGE, hint="upgrade the client")
    if len(request.through) > QUERY_TABLES_MAX:
        text = f"a login may name {QUERY_TABLES_MAX} views, and the request names {len(request.through)}"
        raise Refused(text, code=ErrorCode.BAD_MESSAGE, hint="read it through fewer views")
    if request.transaction is None:
        if request.replaces:
            raise Refused("a login to read can't replace rows", code=ErrorCode.BAD_MESSAGE, hint="upgrade the client")
        return
    record = catalog.transactions.get(request.transaction)
    if record is None or record.table != request.table or record.state is not TransactionState.OPEN:
        raise Refused(
            f"write transaction {request.transaction[:64]!r} is not open on this table",
            code=ErrorCode.TRANSACTION_UNKNOWN,
            hint="open a transaction first",
        )


def _is_within(limits: LoginLimits, request: messages.ClientRequest, catalog: Catalog) -> bool:
    match request:
        case messages.AskTable(name=name):
            return _is_of(limits, name, catalog)
        case messages.PlanScan(name=name, through=through, replaces=replaces):
            may = limits.replaces if replaces else _reads(limits, limits.table, through)
            return _is_of(limits, name, catalog) and may
        case messages.PlanChanges(name=name):
            return _is_of(limits, name, catalog) and _reads(limits, limits.table, ())
        case messages.AgreeCutoff(table=table, through=through):
            return _reads(limits, table, through)
        case messages.OpenTransaction(table=table, transaction=transaction):
            return _writes(limits, table, transaction) and transaction in catalog.transactions
        case messages.CommitTransaction(transaction=transaction, takes_rows=takes_rows):
            return _writes(limits, limits.table, transaction) and (limits.replaces or not takes_rows)
        case messages.AbortTransaction(transaction=transaction):
            return _writes(limits, limits.table, transaction)
        case _:
            return False


def _is_of(limits: LoginLimits, name: str, catalog: Catalog) -> bool:
    """Whether the name is that of the table; a name that nothing has is answered as for everybody."""
    database, _, table = name.partition(".")
    qualified = TableName(database, table)
    found = catalog.find_table(qualified) or catalog.find_view(qualified)
    return found is None or found.id == limits.table


def _reads(limits: LoginLimits, table: ObjectId, through: tuple[ObjectId, ...]) -> bool:
    may = limits.transaction is None or limits.replaces
    return may and (table, through) == (limits.table, limits.through)


def _writes(limits: LoginLimits, table: ObjectId, transaction: TransactionId) -> bool:
    return (table, transaction) == (limits.table, limits.transaction)


def _outside(asker: Asker) -> Forbidden:
    what = "to read" if asker.limits is not None and asker.limits.transaction is None else "to write to"
    return Forbidden(
        f"this login of {asker.user.name} was made {what} one table, and allows nothing else",
        hint=f"connect as {asker.user.name} for anything else",
    )
