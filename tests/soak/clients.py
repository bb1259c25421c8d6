"""The clients of a real cluster: threads that change the catalog, append and read, each drawing from a seed.

`python -m tests.soak.clients COORDINATOR DIRECTORY SEED`; lines of JSON on standard input tell it to `begin`, to
`stop`, and in the end, once all is healed, to `check` all that was ever answered.
"""

import contextlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from leasehold.client.cluster import Cluster, connect
from leasehold.client.credentials import PASSWORD_VARIABLE, USER_VARIABLE
from leasehold.core.words.messages import Execute, Receipt, Rows
from leasehold.core.words.statements import fold
from leasehold.errors import Definite, Indefinite, LeaseholdError, OutcomeUnknown
from leasehold.ids import LoginToken, StatementId, TransactionId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.catalog_operations import CatalogAnswer
from leasehold.testing.linearizability import CatalogObject
from leasehold.testing.statements import DATABASES, TABLES, VIEWS, some_statement
from leasehold.wire.blocking import BlockingConnection
from leasehold.wire.clock import BoottimeClock
from leasehold.wire.entropy import SystemEntropy
from tests.netns.remote import own_trust, wait_until
from tests.soak.checks import Checks
from tests.soak.copies import under_way_if_expendable, wrong_copies
from tests.soak.ledger import KEYS_PER_APPEND, Ledger, TableLedger, Told
from tests.soak.readers import LostLinkError, OpenEndedError, keys_of, opens_after

COLUMN = "c"
SOAKED = {
    "soak.plain": "(k BIGINT, v STRING) CLUSTERED BY (k) INTO 2 BUCKETS",
    "soak.altered": "(k BIGINT, v STRING) CLUSTERED BY (k) INTO 1 BUCKETS TBLPROPERTIES ('replication' = '3')",
}
"""Tables that stay; of the second one a column comes and goes."""
ALTERED = "soak.altered"
CHANGING = "changing"
"""Stands for the tables that clients make, alter and drop."""
SCHEMA_CLIENTS = 3
TIMEOUTS = (0.2, 2.0, 6.0)
TIMEOUT_CHANCE = 0.2
ADMINISTRATOR, PASSWORD = "root", "p"
FIRST_NUMBER = 1_000
"""Of rows in the tables that change; smaller ones are defaults of columns that came later."""
HOLD_NS = 5 * SECOND_NS
STOP_NS = 20 * SECOND_NS
ASK_NS = 2 * SECOND_NS
WRITE_SECONDS = 5.0
"""So long a write may take to end before a machine is lost, else it is not lost."""
WHOLE_SECONDS = 40.0
MOVE_SECONDS = 4.0
REPLACE_AFTER = "5s"

now_ns = BoottimeClock().now_ns


class AlteredColumn:
    """Whether COLUMN is there: True, False or, while that changes or is not known, None. The number tells a reader
    that nothing has changed while it looked."""

    def __init__(self) -> None:
        self.now: tuple[int, bool | None] = (0, False)

    def is_now(self, there: bool | None) -> None:
        self.now = (self.now[0] + 1, there)


class Clients:
    """All threads of one soak."""

    def __init__(self, address: str, directory: Path, seed: int) -> None:
        self._address = address
        self._directory = directory
        self._random = Random(seed)
        self._people = self._random.random() < 0.5
        """Whether the cluster has users: then the clients are its administrator, who changes them too."""
        self._entropy = SystemEntropy()
        self._stopped = threading.Event()
        self._column = AlteredColumn()
        self.ledger = Ledger()
        self.tables = {name: TableLedger() for name in SOAKED}
        self._written: set[int] = set()
        self._writing = {name: threading.Lock() for name in (*SOAKED, CHANGING)}
        """Held by whoever writes to that table, or to one of those that change."""
        self._drawn: list[str] = []
        """The ids of all writes."""
        self._threads: list[threading.Thread] = []
        self._checks = Checks(address, directory, self.ledger, self.tables, ALTERED)

    # ------------------------------------------------------------ told from outside

    def begin(self) -> None:
        """Makes the tables that stay, then lets the threads go."""
        with connect(self._address) as cluster:
            if self._people:
                self._ask(cluster, f"CREATE USER {ADMINISTRATOR} PASSWORD '{PASSWORD}'", modelled=True)
                os.environ.update({USER_VARIABLE: ADMINISTRATOR, PASSWORD_VARIABLE: PASSWORD})
            for text in ["CREATE DATABASE soak", *(f"CREATE TABLE {name} {what}" for name, what in SOAKED.items())]:
                self._ask(cluster, text, modelled=False)
        works = [self._change_the_catalog] * SCHEMA_CLIENTS + [self._alter_a_column, self._use_changing_tables]
        works += [self._read_a_view, self._ask_each_coordinator, self._move_buckets, self._hold_files]
        for table in SOAKED:
            works += [_on(self._append, table), _on(self._scan, table), _on(self._read_files, table)]
        for work in works:
            # A generator of its own for each thread: what one draws does not depend on another's turn.
            thread = threading.Thread(target=self._live, args=(work, Random(self._random.getrandbits(64))), daemon=True)
            self._threads.append(thread)
            thread.start()

    def answers(self) -> bool:
        """Whether the coordinator does."""
        with connect(self._address) as cluster:
            try:
                cluster.status()
            except LeaseholdError:
                return False
        return True

    def under_way_without(self, node: str) -> list[str] | None:
        """What the cluster does as it loses a node whose process is dead; None if it may not lose it. While this looks,
        nobody writes: a write that has begun earlier may still name the node as a holder."""
        with contextlib.ExitStack() as stack:
            for lock in self._writing.values():
                if not lock.acquire(timeout=WRITE_SECONDS):
                    return None
                stack.callback(lock.release)
            try:
                with connect(self._address, timeout=WRITE_SECONDS) as cluster:
                    return under_way_if_expendable(cluster, node)
            except LeaseholdError:
                return None

    def wait_until_whole(self) -> None:
        """All is mended and nobody writes any more: each bucket gets its copies, and there are no others."""
        with connect(self._address) as cluster:
            known = cluster.status()
            for transaction in self._drawn:  # while one is open that its client has given up, files are kept for it
                with contextlib.suppress(LeaseholdError):
                    cluster.try_abort(known.cluster_id, TransactionId(transaction))
            for one in known.nodes:
                if one.state == "ACTIVE":
                    cluster.sql(f"ALTER NODE {one.id} UNDRAIN")
            cluster.sql(f"ALTER CLUSTER SET replace_after = '{REPLACE_AFTER}'")
            wrong: list[str] = []

            def is_whole() -> bool:
                wrong[:] = wrong_copies(cluster, self._directory)
                return not wrong

            wait_until(
                is_whole, said=lambda: f"whole buckets; {len(wrong)} are not: {wrong[:3]}", seconds=WHOLE_SECONDS
            )

    def tally(self) -> dict[str, Any]:
        """What has been done so far, and what was wrong with it."""
        return {"counts": dict(self.ledger.counts), "violations": self.ledger.violations}

    def stop(self) -> int:
        """Lets every thread end what it is doing, for STOP_NS; answers how many still do."""
        self._stopped.set()
        give_up_ns = now_ns() + STOP_NS
        for thread in self._threads:
            thread.join(max(0, give_up_ns - now_ns()) / SECOND_NS)
        return sum(thread.is_alive() for thread in self._threads)

    def check(self) -> dict[str, Any]:
        """All is healed and nobody asks any more: whatever was answered has to be true."""
        late = self._checks.run()
        return {**self.tally(), "late": late}

    def account(self) -> Any:
        """Every statement with its answer, to look into what went wrong."""
        return [{**msgspec.structs.asdict(one), "heard": repr(one.heard)} for one in list(self.ledger.statements)]

    # ------------------------------------------------------------ threads

    def _live(self, work: Callable[[Cluster, Random], None], random: Random) -> None:
        """One thread: again and again until it is told to stop. What is not an error of ours is a violation."""
        with Cluster(self._address, on_new_id=self._drawn.append) as cluster:
            while not self._stopped.wait(random.random() / 2):
                try:
                    work(cluster, random)
                except OutcomeUnknown:
                    self.ledger.count("outcomes unknown")
                except LeaseholdError:
                    self.ledger.count("refused or unreachable")
                except BaseException:
                    self.ledger.violated(f"a client ended: {traceback.format_exc()}")
                    raise

    def _ask(self, cluster: Cluster, text: str, *, modelled: bool, timeout: float | None = None) -> Told:
        told = Told(
            id=StatementId(self._entropy.hex_128()), text=text, asked_ns=now_ns(), modelled=modelled, timeout=timeout
        )
        self.ledger.asked(told)
        try:
            answer = cluster.sql(text, statement_id=told.id, timeout=timeout)
        except Definite as error:
            told.heard = error
        except Indefinite:
            self.ledger.count("outcomes unknown")
            return told
        else:
            assert isinstance(answer, Receipt)
            told.heard = answer
            if answer.outcome not in told.outcomes or answer.statement_id != told.id:
                self.ledger.violated(f"INV-DDL-1: {text} ({told.id}) was answered {answer}")
        told.answered_ns = now_ns()
        return told

    def _change_the_catalog(self, cluster: Cluster, random: Random) -> None:
        timeout = random.choice(TIMEOUTS) if random.random() < TIMEOUT_CHANCE else None
        self._ask(cluster, some_statement(random, people=self._people), modelled=True, timeout=timeout)

    def _move_buckets(self, cluster: Cluster, random: Random) -> None:
        """So that machines are lost in the middle of that, and that of a lost one is replaced within seconds."""
        self._stopped.wait(random.random() * MOVE_SECONDS)
        node = random.choice(cluster.status().nodes).id
        moves = (f"ALTER NODE {node} DRAIN", f"ALTER NODE {node} UNDRAIN", "ALTER CLUSTER REBALANCE")
        self._ask(
            cluster, random.choice((*moves, f"ALTER CLUSTER SET replace_after = '{REPLACE_AFTER}'")), modelled=False
        )

    def _alter_a_column(self, cluster: Cluster, random: Random) -> None:
        """Its readers know what they must see: nobody else alters this table."""
        there = self._column.now[1]
        adding = random.random() < 0.5 if there is None else not there
        self._column.is_now(None)
        change = f"ADD COLUMN {COLUMN} BIGINT" if adding else f"DROP COLUMN {COLUMN}"
        told = self._ask(cluster, f"ALTER TABLE {ALTERED} {change}", modelled=False)
        if isinstance(told.heard, Receipt):
            self._column.is_now(adding)
        elif isinstance(told.heard, Definite):
            self._column.is_now(there)

    def _ask_each_coordinator(self, cluster: Cluster, random: Random) -> None:
        """One after another, without a pause between them: so one may show what another does not show yet."""
        addresses = self._address.split(",")
        if self._people:
            cluster.sql("SHOW DATABASES")  # logs in
        for address in random.sample(addresses, len(addresses)):
            with contextlib.suppress(LeaseholdError):  # it is down, or knows that it can't tell
                for text, of in (("SHOW TABLES", ()), (f"DESCRIBE {ALTERED}", tuple(ALTERED.split(".")))):
                    self._ask_one(address, text, of, cluster.token)

    def _ask_one(self, address: str, text: str, of: CatalogObject, login: LoginToken | None) -> None:
        connection, asked_ns = BlockingConnection(address, own_trust()), now_ns()
        request = Execute(cluster_id=None, statement=StatementId(self._entropy.hex_128()), text=text, login=login)
        try:
            pages = [page for page in connection.stream(request, ASK_NS) if isinstance(page, Rows)]
        finally:
            connection.close()
        words = 1 if of else 2
        named = frozenset((*of, *(fold(str(word)) for word in row[:words])) for page in pages for row in page.rows)
        what = f"{text} at {address}"
        self.ledger.shown(
            CatalogAnswer(
                what=what, asked_ns=asked_ns, answered_ns=now_ns(), revision=pages[0].revision, shown=named, of=of
            )
        )

    def _append(self, table: str, cluster: Cluster, random: Random) -> None:
        number = self.tables[table].begin(random.choice((1, 10, random.randint(1, KEYS_PER_APPEND))))
        keys = self.tables[table].keys(number)
        self.ledger.count("appends")
        rows = pa.table({"k": keys, "v": [f"row {key}" for key in keys]})
        try:
            with self._writing[table]:
                appended = cluster.table(table).append(rows)
        except Definite:
            self.tables[table].refused(number)
            raise
        if appended != len(keys):
            self.ledger.violated(f"INV-WRITE-2: {len(keys)} rows appended to {table}, {appended} acknowledged")
        self.tables[table].committed(number)

    def _scan(self, table: str, cluster: Cluster, random: Random) -> None:
        """Finds every append that had been acknowledged before, whole and once; and the columns of the moment."""
        before = self._column.now
        must_be_seen = self.tables[table].must_be_seen()
        reader = cluster.table(table).scan(random.choice((None, ["k"], ["v", "k"])) if table != ALTERED else None)
        after = self._column.now
        self.ledger.count("scans")
        known = table == ALTERED and before == after and before[1] is not None
        if known and (COLUMN in reader.schema.names) != before[1]:
            self.ledger.violated(f"INV-SERVE-1: {table} was shown with {reader.schema.names}, {before} was known")
        wrong = self.tables[table].check(reader.read_all()["k"], must_be_seen)
        self.ledger.violated(wrong and f"INV-WRITE-2: {table}: {wrong}")

    def _read_files(self, table: str, cluster: Cluster, random: Random) -> None:
        """As `_scan`, but as far as possible from the files of nodes."""
        must_be_seen = self.tables[table].must_be_seen()
        plan = cluster.plan(table, random.choice((["k"], ["v", "k"])), grouped=True)
        try:
            keys, local = keys_of(cluster, plan, "k")
        except OpenEndedError:
            self.ledger.count("opens that ended")
            return
        except LostLinkError as error:
            self.ledger.violated(f"INV-OPEN-1: {error}")
            return
        self.ledger.count("scans")
        self.ledger.count("files read", local)
        wrong = self.tables[table].check(keys, must_be_seen)
        self.ledger.violated(wrong and f"INV-WRITE-2: {table}, {local} files: {wrong}")

    def _hold_files(self, cluster: Cluster, random: Random) -> None:
        """No file can be opened for a column once the statement that drops it has returned."""
        before = self._column.now
        plan = cluster.plan(ALTERED, grouped=True)
        if not before[1] or COLUMN not in [one.name for one in plan.fields]:
            return
        give_up_ns = now_ns() + HOLD_NS

        def has_returned() -> bool:
            number, there = self._column.now
            return number > before[0] and there is False

        wrong = opens_after(
            cluster, plan, has_returned, lambda: self._stopped.wait(random.random() / 20) or now_ns() > give_up_ns
        )
        self.ledger.count("files held")
        self.ledger.violated(wrong or None)

    def _use_changing_tables(self, cluster: Cluster, random: Random) -> None:
        """Rows of one number each, in whatever columns there are just now: one is never seen twice in a column, and
        none is seen that was not written. Tables are renamed meanwhile."""
        name = f"{random.choice(DATABASES)}.{random.choice(TABLES)}"
        number = FIRST_NUMBER + self.ledger.counts["numbers"]
        table = cluster.table(name)
        self.ledger.count("numbers")
        self._written.add(number)
        numbers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        with contextlib.suppress(LeaseholdError), self._writing[CHANGING]:
            table.append(pa.table({column: pa.array([number], pa.int32()) for column in numbers}))
        read = cluster.table(name).scan().read_all()
        still = [column for column in numbers if column in read.column_names]  # others alter the table meanwhile
        self._check_numbers(name, read.select(still))

    def _read_a_view(self, cluster: Cluster, random: Random) -> None:
        """It shows what was written to the tables that it may read."""
        name = f"{random.choice(DATABASES)}.{random.choice(VIEWS)}"
        read = cluster.view(name).scan().read_all()
        self._check_numbers(name, read)

    def _check_numbers(self, name: str, read: pa.Table) -> None:
        self.ledger.count("scans")
        for column in read.column_names:
            values = [value for value in read[column].to_pylist() if value is not None and value >= FIRST_NUMBER]
            if len(values) != len(set(values)) or not self._written.issuperset(values):
                self.ledger.violated(f"INV-WRITE-2: {name}.{column} was read as {sorted(values)}")


def _on(work: Callable[[str, Cluster, Random], None], table: str) -> Callable[[Cluster, Random], None]:
    return lambda cluster, random: work(table, cluster, random)


def requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main(address: str, directory: str, seed: str) -> None:
    clients = Clients(address, Path(directory), int(seed))
    for request in requests():
        line: dict[str, Any] = {"id": request.pop("id")}
        try:
            line["answer"] = getattr(clients, request.pop("do"))(**request)
        except LeaseholdError as error:
            line["error"] = {"kind": type(error).__name__, "code": error.code, "text": error.text}
        except AssertionError as error:
            line["error"] = {"kind": "AssertionError", "code": "CHECK_FAILED", "text": str(error)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    os._exit(0)  # whoever told it what to do is gone


if __name__ == "__main__":
    main(*sys.argv[1:])
