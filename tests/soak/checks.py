"""What has to hold of a real cluster once its faults are mended and its clients are silent."""

from bisect import bisect_left
from pathlib import Path
from typing import Any

from leasehold.cli.verify import verify
from leasehold.client.cluster import Cluster, connect
from leasehold.core.data.coordinator_client import CoordinatorRole
from leasehold.core.words.messages import AskOutcome, Receipt, Rows, WaitingFor
from leasehold.core.words.records import Outcome
from leasehold.core.words.statements import Definition
from leasehold.errors import Definite, LeaseholdError
from leasehold.ids import LoginToken, Revision
from leasehold.limits.statements import HISTORY_ROWS_MAX
from leasehold.limits.units import SECOND_NS
from leasehold.storage.servelog import read_serve_log
from leasehold.testing.catalog import Model, parsed
from leasehold.testing.catalog_operations import operations
from leasehold.testing.catalog_rows import TableRow
from leasehold.testing.linearizability import UndecidedHistory, check
from leasehold.wire.blocking import BlockingConnection
from tests.netns.remote import own_trust
from tests.soak.ledger import Ledger, TableLedger, Told

OUTCOME_SECONDS = 30


class Checks:
    """Notes in the ledger what does not hold."""

    def __init__(
        self, address: str, directory: Path, ledger: Ledger, tables: dict[str, TableLedger], altered: str
    ) -> None:
        self._address = address
        self._directory = directory
        self._ledger = ledger
        self._tables = tables
        self._altered = altered
        """The table whose columns come and go."""

    def run(self) -> list[dict[str, Any]]:
        """Answers the statements that took longer than their bound: the caller knows what was broken meanwhile."""
        heard = [one for one in self._ledger.statements if isinstance(one.heard, Receipt)]
        late = [_late(one) for one in heard if one.heard.elapsed_ns > one.heard.bound_ns]  # type: ignore[union-attr]
        try:
            self._check_served(heard)
            with connect(self._address) as cluster:
                self._check_outcomes(cluster)
                self._check_catalog(cluster)
                self._check_rows(cluster)
            self._check_history()
        except LeaseholdError as error:
            self._ledger.violated(f"liveness: all is mended, and yet: {type(error).__name__} [{error.code}] {error}")
        return late

    def _check_served(self, heard: list[Told]) -> None:
        """INV-SERVE-1, twice: by the rule of `leasehold verify`, and by the clock that all processes here share."""
        verified = verify(self._directory)
        self._ledger.count("batches", verified.batches)
        if verified.stale_serves:
            self._ledger.violated(f"INV-SERVE-1: {verified.stale_serves} stale serves: {verified.examples}")
        answered: list[int] = []
        revisions: list[Revision] = []
        # A receipt for which nothing was to be done waited for nobody, nor does what a timeout has ended.
        for one in sorted((one for one in heard if not one.nothing_done), key=lambda each: each.answered_ns):
            assert isinstance(one.heard, Receipt)
            if one.heard.outcome is not Outcome.COMMITTED:
                continue
            assert one.heard.revision is not None
            answered.append(one.answered_ns)
            revisions.append(max(one.heard.revision, revisions[-1] if revisions else Revision(0)))
        for log in sorted(self._directory.glob("node-*/servelog")):
            for serve in read_serve_log(log):
                earlier = bisect_left(answered, serve.released_ns)
                if earlier and serve.view < revisions[earlier - 1]:
                    self._ledger.violated(f"INV-SERVE-1: {revisions[earlier - 1]} had been answered, then {serve}")

    def _check_outcomes(self, cluster: Cluster) -> None:
        """INV-DDL-1: asked again by its id, every statement has the outcome that its client was told of."""
        cluster.sql("SHOW DATABASES")  # waits until a coordinator leads
        leaders = [address for address, role in cluster.roles().items() if role is CoordinatorRole.LEADER]
        login = cluster.token  # of the administrator, where there are users
        connection = BlockingConnection(leaders[0], own_trust())
        try:
            for one in self._ledger.statements:
                again = _outcome(connection, one, login)
                if not _agree(one, again):
                    self._ledger.violated(f"INV-DDL-1: {one.text} ({one.id}): {one.heard!r}, asked again {again!r}")
                elif one.heard is None and isinstance(again, Receipt):
                    one.heard = again
        finally:
            connection.close()

    def _check_history(self) -> None:
        """INV-READ-2: what the clients asked about tables, and were answered by any coordinator, is linearizable."""
        ledger, altered = self._ledger, tuple(self._altered.split("."))
        found = check(operations(ledger.statements, ledger.catalog_answers, columns_of=frozenset({altered})))
        ledger.count("histories")
        if isinstance(found, UndecidedHistory):
            ledger.count("undecided histories")
        else:
            ledger.violated(found and f"INV-READ-2: {found}")

    def _check_catalog(self, cluster: Cluster) -> None:
        """The catalog is what the acknowledged statements make of it, in the order of their revisions."""
        wrote = {row[-1] for row in _rows(cluster, "SHOW HISTORY")}
        if len(wrote) == HISTORY_ROWS_MAX:
            return  # which of the older ones found anything to do, nobody can tell any more
        model = Model()
        done = [(one.heard, one) for one in self._ledger.statements if one.modelled and isinstance(one.heard, Receipt)]
        done = [(heard, one) for heard, one in done if one.id in wrote and heard.outcome is not Outcome.ROLLED_BACK]
        for _, one in sorted(done, key=lambda each: each[0].revision or 0):
            try:
                statement = parsed(one.text)
                assert isinstance(statement, Definition), "a question changes nothing"
                model.apply(one.id, statement)
            except (AssertionError, KeyError, ValueError) as error:
                what = f"{one.text} ({one.id}) was acknowledged where it was not possible: {error!r}"
                self._ledger.violated(f"INV-DDL-1: {what}")
                return
        self._ledger.count("statements in the model", len(done))
        tables = {
            f"{key[1]}.{key[2]}": [column.name for column in one.columns]
            for key, one in model.shown.items()
            if isinstance(one, TableRow)
        }
        shown = {f"{row[0]}.{row[1]}" for row in _rows(cluster, "SHOW TABLES")} - self._tables.keys()
        if shown != tables.keys():
            self._ledger.violated(f"INV-DDL-1: SHOW TABLES says {shown}, acknowledged were {sorted(tables)}")
            return
        for name, columns in tables.items():
            found = [str(row[0]) for row in _rows(cluster, f"DESCRIBE {name}")]
            if found != columns:
                self._ledger.violated(f"INV-DDL-1: {name} has {found}, acknowledged were {columns}")

    def _check_rows(self, cluster: Cluster) -> None:
        """INV-WRITE-2 and INV-REP-1: every acknowledged row is there, once."""
        for name, table in self._tables.items():
            must_be_seen = table.must_be_seen()
            read = cluster.table(name).scan(["k"]).read_all()["k"]
            self._ledger.count("rows", len(read))
            wrong = table.check(read, must_be_seen)
            self._ledger.violated(wrong and f"INV-WRITE-2: {name}, in the end: {wrong}")


def _agree(one: Told, again: Receipt | Definite) -> bool:
    """Whether a statement's second answer is the first one, or a possible one where its client had heard none."""
    if isinstance(again, Definite):
        # What found nothing to do is not recorded.
        return not isinstance(one.heard, Receipt) or (again.code == "NO_STATEMENT" and one.nothing_done)
    if isinstance(one.heard, Receipt):
        return (again.outcome, again.revision) == (one.heard.outcome, one.heard.revision)
    return one.heard is None and again.outcome in one.outcomes


def _outcome(connection: BlockingConnection, one: Told, login: LoginToken | None) -> Receipt | Definite:
    """Raises `LeaseholdError` if there is no definite answer though nothing is broken."""
    request = AskOutcome(cluster_id=None, statement=one.id, login=login)
    try:
        for message in connection.stream(request, OUTCOME_SECONDS * SECOND_NS):
            if isinstance(message, Receipt):
                return message
            assert isinstance(message, WaitingFor)
    except Definite as error:
        return error
    raise AssertionError(f"asked for {one.id}, the answer ended too early")


def _rows(cluster: Cluster, text: str) -> tuple[tuple[str | int | bool | None, ...], ...]:
    answer = cluster.sql(text)
    assert isinstance(answer, Rows)
    return answer.rows


def _late(one: Told) -> dict[str, Any]:
    assert isinstance(one.heard, Receipt)
    took = {"elapsed_ns": one.heard.elapsed_ns, "bound_ns": one.heard.bound_ns}
    return {"text": one.text, "id": one.id, "asked_ns": one.asked_ns, "answered_ns": one.answered_ns, **took}
