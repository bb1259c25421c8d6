"""The vault: revisions replayed into it beside the same rows in plain SQLite, opening it with a million keys, leaping.

Revisions come in batches as a node that catches up applies them. Plain SQLite writes the same rows, revision by
revision, in transactions of the same size with the same settings; it keeps no hashes. The two take turns, batch by
batch.
"""

import asyncio
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure, Table, median, ratios, spread
from leasehold.core.catalog.catalog import Catalog
from leasehold.core.words import keys
from leasehold.core.words.codec import encode
from leasehold.core.words.digest import digest_bytes, item_digest
from leasehold.core.words.lineage import GENESIS
from leasehold.core.words.operations import Change, RevisionChanges
from leasehold.core.words.records import (
    BucketRecord,
    Claiming,
    ColumnStatistics,
    SegmentRecord,
    TableRecord,
    TransactionRecord,
    TransactionState,
    UseState,
)
from leasehold.ids import (
    BucketNumber,
    FieldId,
    NodeId,
    ObjectId,
    Revision,
    SchemaVersion,
    SegmentId,
    Token,
    TransactionId,
)
from leasehold.limits.vault import VAULT_BATCH_REVISIONS_MAX, VAULT_CACHE_BYTES, VAULT_LOG_PAGES
from leasehold.vault.limits import VaultLimits
from leasehold.vault.store import SqliteVault

TABLES, BUCKETS, LARGE_TABLES = 100, 16, 1_000
STAGED = 10_000


class Size(NamedTuple):
    """How much is done: revisions to replay, keys of a vault that is opened, tables of the largest, times it is opened,
    keys of a snapshot."""

    revisions: int = 1_000_000
    keys: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    tables: tuple[int, int] = (TABLES, LARGE_TABLES)
    opened: int = 9
    leap: int = 200_000


SMALLEST = Size(revisions=100, keys=(200, 400), tables=(2, 4), opened=2, leap=50)

# ---------------------------------------------------------------- what is written


def table(number: int) -> Change:
    record = TableRecord(
        id=ObjectId(number),
        database=ObjectId(1),
        name=f"t{number}",
        state=UseState.IN_USE,
        schema_version=SchemaVersion(1),
        fields=(),
        next_field=FieldId(1),
        cluster_by=None,
        buckets=BUCKETS,
        replication=2,
        ttl_ns=None,
        time_column=None,
        properties={},
    )
    return Change(keys.table(record.id), encode(record))


def bucket(number: int, which: int, turn: int = 0) -> Change:
    nodes = (NodeId(1 + turn % 3), NodeId(2 + turn % 3))
    record = BucketRecord(table=ObjectId(number), bucket=BucketNumber(which), replicas=nodes, in_sync=nodes)
    return Change(keys.bucket(record.table, record.bucket), encode(record))


def segment(number: int, tables: int) -> Change:
    digits = hashlib.sha256(b"%d" % number).hexdigest()
    record = SegmentRecord(
        id=SegmentId(f"{digits[:32]}-{digits[32:]}"),
        table=ObjectId(1 + number % tables),
        bucket=BucketNumber(number // tables % BUCKETS),
        schema_version=SchemaVersion(1),
        rows=100_000,
        size_bytes=1_000_000,
        sha256=bytes.fromhex(digits),
        statistics=tuple(
            ColumnStatistics(field=FieldId(field), nulls=0, minimum=number, maximum=number + 100_000)
            for field in (1, 2)
        ),
        holders=(NodeId(1), NodeId(2)),
    )
    return Change(keys.segment(record.table, record.bucket, record.id), encode(record))


def transaction(number: int) -> Change:
    record = TransactionRecord(
        id=TransactionId(hashlib.sha256(b"%d" % number).hexdigest()[:32]),
        order=number,
        table=ObjectId(1 + number % TABLES),
        schema_version=SchemaVersion(1),
        state=TransactionState.COMMITTED,
        rows=100_000,
    )
    return Change(keys.transaction(record.id), encode(record))


def revision(number: int, *changes: Change) -> RevisionChanges:
    """With the lineage that every revision writes."""
    lineage = Change(keys.LINEAGE, hashlib.sha256(b"%d" % number).digest())
    return RevisionChanges(Revision(number), tuple(sorted((lineage, *changes), key=lambda one: one.key)))


def placed(number: int) -> RevisionChanges:
    """A bucket of a large cluster gets other replicas: one record that is there already."""
    which = int.from_bytes(hashlib.sha256(b"%d" % number).digest()[:4]) % (LARGE_TABLES * BUCKETS)
    return revision(number, bucket(1 + which // BUCKETS, which % BUCKETS, number))


def committed(number: int) -> RevisionChanges:
    """A write becomes visible: a segment and a transaction, both new, under random keys."""
    return revision(number, segment(number, TABLES), transaction(number))


# ---------------------------------------------------------------- replaying


class Plain:
    """The same rows in SQLite, and nothing else."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(f"PRAGMA cache_size = -{VAULT_CACHE_BYTES // 1024}")
        self._database.execute(f"PRAGMA wal_autocheckpoint = {VAULT_LOG_PAGES}")
        self._database.execute("CREATE TABLE item (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")

    def apply(self, batches: list[RevisionChanges]) -> None:
        rows = ((change.key, change.value) for batch in batches for change in batch.changes)
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT OR REPLACE INTO item VALUES (?, ?)", rows)
        self._database.execute("COMMIT")

    def close(self) -> None:
        self._database.close()


def taken(made: Callable[[int], RevisionChanges], revisions: int) -> Iterator[list[RevisionChanges]]:
    for first in range(1, revisions + 1, VAULT_BATCH_REVISIONS_MAX):
        yield [made(number) for number in range(first, min(first + VAULT_BATCH_REVISIONS_MAX, revisions + 1))]


async def replayed(made: Callable[[int], RevisionChanges], revisions: int) -> tuple[list[float], list[float]]:
    """Seconds of each batch: the vault's, and plain SQLite's."""
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        vault, plain = await SqliteVault.open(Path(scratch) / "node"), Plain(Path(scratch) / "plain.db")
        for batches in taken(made, revisions):
            began = time.perf_counter()
            await vault.apply(batches, GENESIS)
            between = time.perf_counter()
            plain.apply(batches)
            ours.append(between - began)
            theirs.append(time.perf_counter() - between)
        await vault.close()
        plain.close()
    return ours, theirs


def replaying(what: str, made: Callable[[int], RevisionChanges], aim: int | None, revisions: int) -> Figure:
    ours, theirs = asyncio.run(replayed(made, revisions))
    share = ratios(theirs, ours)
    rate = revisions / sum(ours)
    return Figure(
        what=f"{revisions:,} revisions replayed, {what}",
        value=f"{rate:,.0f} in a second over all; a batch {spread(ours, 's')}",
        peer=f"plain SQLite: {revisions / sum(theirs):,.0f} in a second",
        ratio=f"{median(share):.2f} of its rate",
        aim=(f"{aim:,} in a second, " if aim else "") + "0.8 of plain",
        holds=median(share) >= 0.8 and (aim is None or rate >= aim),
    )


# ---------------------------------------------------------------- opening


async def grow(directory: Path, tables: int, first: int, last: int, at: int) -> int:
    """Adds segments number `first` up to `last`; answers the next revision."""
    vault = await SqliteVault.open(directory)
    if first == 0:
        await vault.write_identity(Claiming(token=Token("ab" * 16)))
        rest = [bucket(one, which) for one in range(1, tables + 1) for which in range(BUCKETS)]
        await vault.apply([revision(at, *rest, *(table(one) for one in range(1, tables + 1)))], GENESIS)
        at += 1
    for start in range(first, last, 100_000):
        batch = [segment(number, tables) for number in range(start, min(start + 100_000, last))]
        await vault.apply([revision(at, *batch)], GENESIS)
        at += 1
    await vault.close()
    return at


async def opened(directory: Path) -> tuple[float, float]:
    """Seconds until a catalog is ready, and until the first segments of it are read."""
    began = time.perf_counter()
    vault = await SqliteVault.open(directory)
    catalog = Catalog.reopened(await vault.reopened())
    ready = time.perf_counter()
    bucket = (ObjectId(1), BucketNumber(0))
    assert bucket in catalog.buckets
    assert vault.manifest.bucket(bucket).segments
    first = time.perf_counter()
    await vault.close()
    return ready - began, first - ready


async def read_whole(directory: Path) -> float:
    """Seconds until a catalog is ready that holds everything."""
    vault = await SqliteVault.open(directory, limits=VaultLimits(whole_bytes_max=0))
    began = time.perf_counter()
    stored = await vault.projection()
    Catalog.restored(stored.applied, stored.lineage, stored.items)
    took = time.perf_counter() - began
    await vault.close()
    return took


def opening(tables: int, sizes: tuple[int, ...], repeated: int, *, compared: bool) -> list[Figure]:
    figures: list[Figure] = []
    smallest = 0.0
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        directory = Path(scratch)
        at, segments = 1, 0
        for size in sizes:
            wanted = size - tables * (BUCKETS + 1) - 1
            at = asyncio.run(grow(directory, tables, segments, wanted, at))
            segments = wanted
            times = [asyncio.run(opened(directory)) for _ in range(repeated)]
            ready, first = ([one[part] * 1000 for one in times] for part in (0, 1))
            smallest = smallest or median(ready)
            whole = "" if not compared else f"reading all: {asyncio.run(read_whole(directory)):.2f} s"
            figures.append(
                Figure(
                    what=f"open with {size:,} keys, {tables:,} tables",
                    value=f"{spread(ready, 'ms', 1)}; the first bucket {median(first):.1f} ms",
                    peer=whole,
                    ratio=f"{median(ready) / smallest:.2f} of the smallest" if len(sizes) > 1 else "",
                    aim="flat: at most 2" if len(sizes) > 1 else "report",
                    holds=median(ready) <= 2 * smallest if len(sizes) > 1 else None,
                )
            )
    return figures


# ---------------------------------------------------------------- leaping


async def leapt(directory: Path, total: int) -> tuple[float, float]:
    """Seconds of staging, and of the leap that changes one key in ten."""
    items = sorted((segment(number, TABLES) for number in range(total)), key=lambda one: one.key)
    held = [one for place, one in enumerate(items) if place % 10]
    vault = await SqliteVault.open(directory)
    await vault.apply([RevisionChanges(Revision(1), tuple(held))], GENESIS)
    digest = 0
    for one in items:
        digest ^= item_digest(one.key, one.value or b"")
    began = time.perf_counter()
    for start in range(0, len(items), STAGED):
        await vault.stage(items[start : start + STAGED], first=start == 0)
    between = time.perf_counter()
    changes = await vault.leap(Revision(2), GENESIS, digest_bytes(digest))
    ended = time.perf_counter()
    assert len(changes) == len(items) - len(held)
    await vault.close()
    return between - began, ended - between


def leaping(total: int) -> Figure:
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as scratch:
        staged_s, leap_s = asyncio.run(leapt(Path(scratch), total))
    return Figure(
        what=f"leap to a snapshot of {total:,} keys, a tenth of them new",
        value=f"{staged_s:.2f} s to stage, {leap_s:.2f} s to leap",
        aim="report",
    )


def run(smallest: bool) -> list[Table]:
    size = SMALLEST if smallest else Size()
    few, many = size.tables
    figures = [
        replaying("each changes a record", placed, 35_000, size.revisions),
        replaying("each adds a segment and a transaction", committed, None, size.revisions // 5),
        *opening(few, size.keys, size.opened, compared=True),
        *opening(many, size.keys[-1:], size.opened, compared=False),
        leaping(size.leap),
    ]
    return [Table(title="Vault: replaying, opening, leaping", figures=figures)]
