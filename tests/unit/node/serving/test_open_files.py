"""What a scan on a node says of the files that it opens, and when it decodes them."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.node.disk import segment_files
from leasehold.storage.segment import footer_bytes
from leasehold.wire.coding_turns import CODING_TURNS
from leasehold.wire.open_file import OpenFile
from tests.unit.node.cluster import Cluster, cluster, rows
from tests.unit.node.serving.test_scans import append, read


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, nodes=1, batch_rows=4) as made:
        made.create(("k", "BIGINT"), ("v", "STRING"), replication=1)
        append(made, rows(0, 10))
        yield made


def test_a_scan_counts_the_footer_of_a_file_before_it_opens_the_file(
    one: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    opened: list[int] = []
    opening, read_rows = OpenFile.opening, segment_files.read_rows

    def noted(file: OpenFile, size: int) -> None:
        told.append(size)
        opening(file, size)

    def counted(path: Path, *more: object, **options: object) -> object:
        opened.append(footer_bytes(path))
        assert told == opened
        return read_rows(path, *more, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(OpenFile, "opening", noted)
    monkeypatch.setattr(segment_files, "read_rows", counted)
    (segment,) = one.plan().segments
    assert sum(batch.num_rows for batch, _ in read(one.node(1), one.read_ticket(segment))) == 10
    assert len(opened) == 1
    assert opened[0] > 0


def test_files_are_decoded_in_turns(one: Cluster) -> None:
    (segment,) = one.plan().segments
    found: list[int] = []

    def scan() -> None:
        found.extend(batch.num_rows for batch, _ in read(one.node(1), one.read_ticket(segment)))

    taken = 0
    while CODING_TURNS.acquire(blocking=False):
        taken += 1
    reader = threading.Thread(target=scan)
    try:
        reader.start()
        reader.join(0.2)
        assert not found
    finally:
        CODING_TURNS.release(taken)
    reader.join(10)
    assert sum(found) == 10
