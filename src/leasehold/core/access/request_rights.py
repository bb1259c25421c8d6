"""Which requests and which rows a client may have, decided on one catalog: tickets, plans, write transactions."""

from collections.abc import Sequence
from itertools import islice

from leasehold.core.access.delegation import check_scan_within, check_within, check_write_within
from leasehold.core.access.rights import CLUSTER, asker_of, holds, need, path_of, user_of
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.catalog.reads import walked
from leasehold.core.membership.identity import node_login
from leasehold.core.words import messages
from leasehold.core.words.records import PrincipalRecord, Right, TableRecord, TransactionState, ViewRecord
from leasehold.core.words.statements import TableName
from leasehold.errors import BadMessage
from leasehold.ids import NodeLogin, ObjectId, TransactionId
from leasehold.limits.statements import QUERY_TABLES_MAX


def check_request(  # noqa: C901, PLR0912 - a case each
    request: messages.ClientRequest, catalog: Catalog, *, reads_max: int | None = None
) -> PrincipalRecord | None:
    """The user who asks; raises `Unauthenticated` or `Forbidden`.

    A statement's rights are checked once it has been parsed, and again when its turn comes. With `reads_max` so many
    tables and views that a query reads are looked at, for callers that check it again where that may take long.
    """
    if isinstance(request, messages.AskStatus):
        return None
    asker = asker_of(node_login(request.login), catalog)
    if asker is None:
        return None
    check_within(asker, request, catalog)
    user = asker.user
    match request:
        case messages.AskTable(name=name):
            _check_table(user, _find(name, catalog), catalog)
        case messages.AskView(name=name):
            _check_selected(user, _find(name, catalog), catalog)
        case messages.PlanScan(name=name, replaces=True, where=where):
            _check_replaced(user, _find(name, catalog), catalog, where)
        case messages.PlanScan(name=name, through=through):
            _check_selected(user, _find(name, catalog), catalog)
            _check_through(user, through, catalog)
        case messages.PlanChanges(name=name):
            _check_selected(user, _find(name, catalog), catalog)
        case messages.PlanQuery(names=names):
            # More of them are refused later, without a look at any.
            found = (_find(name, catalog) for name in names[:QUERY_TABLES_MAX])
            for one in islice(walked(filter(None, found), catalog), reads_max):
                _check_selected(user, one, catalog)
        case (
            messages.AgreeCutoff(table=table, through=through)
            | messages.DelegateLogin(table=table, through=through, transaction=None)
        ):
            _check_selected(user, catalog.tables.get(table), catalog)
            _check_through(user, through, catalog)
        case messages.DelegateLogin(table=table, replaces=True):
            _check_replaced(user, catalog.tables.get(table), catalog)
        case messages.OpenTransaction(table=table) | messages.DelegateLogin(table=table):
            _check_appended(user, table, catalog)
        case messages.CommitTransaction(transaction=transaction, takes_rows=takes_rows, covers=covers):
            record = catalog.transactions.get(transaction)
            if record is not None:
                _check_appended(user, record.table, catalog)
                if takes_rows:
                    _check_replaced(user, catalog.tables.get(record.table), catalog, covers or ())
        case messages.RemoveNode() | messages.TransferLeadership() | messages.AskReceipts() | messages.AskBackup():
            need(user, Right.ALTER, (CLUSTER,), catalog)
        case messages.AbortTransaction(transaction=transaction):
            record = catalog.transactions.get(transaction)
            # To abort one that has ended only tells how it ended. Its writer may ask for that after a REVOKE too.
            if record is not None and record.state is TransactionState.OPEN:
                _check_appended(user, record.table, catalog)
        case messages.Execute() | messages.AskOutcome():
            pass
        case _:
            raise BadMessage(f"not a request: {type(request).__name__}")
    return user


def check_read(login: NodeLogin | None, table: ObjectId, through: tuple[ObjectId, ...], catalog: Catalog) -> None:
    """Raises `Unauthenticated` or `Forbidden` unless the login may read the table, through these views."""
    asker = asker_of(login, catalog)
    if asker is not None:
        check_scan_within(asker, table, through)
        _check_selected(asker.user, catalog.tables.get(table), catalog)
        _check_through(asker.user, through, catalog)


def check_scrub(login: NodeLogin | None, catalog: Catalog) -> None:
    """Raises `Unauthenticated` or `Forbidden` unless the login may have a node read all its files."""
    user = user_of(login, catalog)
    if user is not None:
        need(user, Right.ALTER, (CLUSTER,), catalog)


def check_append(
    login: NodeLogin | None, table: ObjectId, transaction: TransactionId, catalog: Catalog
) -> PrincipalRecord | None:
    """The user who appends; raises `Unauthenticated` or `Forbidden` unless the login may add rows to the table in this
    transaction."""
    asker = asker_of(login, catalog)
    if asker is None:
        return None
    check_write_within(asker, table, transaction)
    _check_appended(asker.user, table, catalog)
    return asker.user


def _find(name: str, catalog: Catalog) -> TableRecord | ViewRecord | None:
    """The table or view of that qualified name; None for what is no name."""
    database, _, table = name.partition(".")
    qualified = TableName(database, table)
    return catalog.find_table(qualified) or catalog.find_view(qualified)


def _check_table(user: PrincipalRecord, found: TableRecord | ViewRecord | None, catalog: Catalog) -> None:
    """INSERT suffices as well: a writer has to know the columns."""
    if found is not None and not holds(user, Right.INSERT, path_of(found), catalog):
        _check_selected(user, found, catalog)


def _check_selected(user: PrincipalRecord, found: TableRecord | ViewRecord | None, catalog: Catalog) -> None:
    if found is not None:
        need(user, Right.SELECT, path_of(found), catalog)


def _check_through(user: PrincipalRecord, through: tuple[ObjectId, ...], catalog: Catalog) -> None:
    for view in through:
        _check_selected(user, catalog.views.get(view), catalog)


def _check_appended(user: PrincipalRecord, table: ObjectId, catalog: Catalog) -> None:
    found = catalog.tables.get(table)
    if found is not None:
        need(user, Right.INSERT, path_of(found), catalog)


def _check_replaced(
    user: PrincipalRecord,
    found: TableRecord | ViewRecord | None,
    catalog: Catalog,
    where: Sequence[object] = (),
) -> None:
    """Which segments may hold rows that fulfil a condition tells of their values."""
    if found is not None:
        for one in (Right.INSERT, Right.DROP, *([Right.SELECT] if where else [])):
            need(user, one, path_of(found), catalog)
