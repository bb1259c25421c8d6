"""Small files of a folder become one, with the same rows; what can't be joined stays as it is."""

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leasehold.limits.local import JOINED_FILE_BYTES_MAX, JOINED_FILES_MIN
from leasehold.spark import joined_files
from leasehold.spark.joined_files import join_small_files
from leasehold.storage.schema import arrow_schema
from tests.unit.storage.rows import encode, field

FIELDS = [field(1, "a", "BIGINT"), field(2, "b", "STRING"), field(3, "c", "DOUBLE"), field(4, "t", "TIMESTAMP")]
COLUMNS = pa.schema([("#2", pa.string()), ("#1", pa.int64())])
FILES = 3 * JOINED_FILES_MIN


def make(path: Path, rows: int, start: int = 0) -> None:
    numbers = range(start, start + rows)
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array([None if one % 3 == 0 else f"b{one}" for one in numbers]),
        pa.array([float("nan")] * rows),
        pa.array(numbers, pa.timestamp("us", "UTC")),
    ]
    encode(path, FIELDS, [pa.RecordBatch.from_arrays(columns, schema=arrow_schema(FIELDS))])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "an [odd] * name"
    made.mkdir()
    for number in range(FILES):
        make(made / f"s{number}.parquet", 5, 5 * number)
    return made


def rows_of(folder: Path, schema: pa.Schema = COLUMNS) -> list[dict[str, Any]]:
    found = [row for one in folder.iterdir() for row in pq.read_table(one, columns=schema.names).to_pylist()]
    return sorted(found, key=lambda row: row["#1"])


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_small_files_become_one_with_the_columns_that_are_read(folder: Path) -> None:
    expected = rows_of(folder)
    (made,) = join_small_files([folder], COLUMNS)
    (joined,) = made.iterdir()
    assert made.parent == folder.parent, "it goes with the open"
    assert rows_of(made) == expected == rows_of(folder)
    metadata = pq.ParquetFile(joined).metadata
    assert metadata.schema.names == COLUMNS.names
    assert metadata.num_row_groups == 1
    assert not metadata.row_group(0).column(0).is_stats_set, "what the bounds leave out would be skipped"


def test_many_rows_become_several_row_groups(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_files, "PAGE_BYTES", 1_000)
    for number in range(FILES):
        make(folder / f"s{number}.parquet", 50, 50 * number)
    expected = rows_of(folder)
    (made,) = join_small_files([folder], COLUMNS)
    (joined,) = made.iterdir()
    assert rows_of(made) == expected
    assert 1 < pq.ParquetFile(joined).metadata.num_row_groups < FILES


def test_few_files_and_large_ones_stay(tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    make(folder / "large", 20_000)
    assert (folder / "large").stat().st_size > JOINED_FILE_BYTES_MAX
    for number in range(JOINED_FILES_MIN - 1):
        make(folder / f"s{number:02}", 5)
    assert join_small_files([folder], COLUMNS) == [folder]
    make(folder / "one more", 5)
    (made,) = join_small_files([folder], COLUMNS)
    assert names(made) == ["joined.parquet", "large"]
    assert (made / "large").samefile(folder / "large")


def test_all_folders_together_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "1", tmp_path / "2"]
    for one in folders:
        one.mkdir()
        for number in range(JOINED_FILES_MIN):
            make(one / f"s{number:02}", 5)
    size = sum(one.stat().st_size for one in folders[0].iterdir())
    monkeypatch.setattr(joined_files, "JOINED_BYTES_MAX", size)
    first, second = join_small_files(folders, COLUMNS)
    assert names(first) == ["joined.parquet"]
    assert second == folders[1]


@pytest.mark.parametrize("kind", ["damaged", "of another type", "of many row groups", "gone"])
def test_a_file_that_is_not_as_it_should_be_stays(folder: Path, kind: str) -> None:
    odd = folder / "odd"
    make(odd, 5, 1_000)
    match kind:
        case "damaged":
            blob = odd.read_bytes()
            odd.write_bytes(blob[:20] + b"x" * 20 + blob[40:])
        case "of another type":
            pq.write_table(pa.table({"#1": [1.5], "#2": ["x"]}), odd)
        case "of many row groups":
            pq.write_table(pa.table({"#1": [1, 2], "#2": ["x", "y"]}), odd, row_group_size=1)
        case _:
            odd.unlink()
            odd.symlink_to(folder / "nothing")
    (made,) = join_small_files([folder], COLUMNS)
    assert names(made) == ["joined.parquet", "odd"]
    (made / "odd").unlink()
    assert [row["#1"] for row in rows_of(made)] == list(range(5 * FILES))


def test_the_files_themselves_are_read_if_the_disk_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(pq.ParquetWriter):
        def write_table(self, *_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(pq, "ParquetWriter", Full)
    assert join_small_files([folder], COLUMNS) == [folder]
    assert names(folder.parent) == [folder.name]


def test_a_folder_that_was_taken_away_is_no_error(tmp_path: Path, folder: Path) -> None:
    gone, made = join_small_files([tmp_path / "gone", folder], COLUMNS)
    assert gone == tmp_path / "gone"
    assert names(made) == ["joined.parquet"]


def test_files_of_which_no_column_is_read_stay(folder: Path) -> None:
    assert join_small_files([folder], pa.schema([])) == [folder]
