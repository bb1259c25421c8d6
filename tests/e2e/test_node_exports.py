"""`leasehold node start --standalone --export`, with real directories."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.e2e.node_directories import DELETED, ROWS, everything_below, files, garble, standalone, table_ids

pytestmark = pytest.mark.processes


def test_a_segment_is_exported_whole_under_the_names_of_today(directory: Path, tmp_path: Path) -> None:
    both, _ = table_ids(directory)
    segment, target = files(directory, both)[0], tmp_path / "out.parquet"
    told = standalone(directory, "--export", segment.stem, "--to", str(target), "-o", "json").json()
    assert (told["table"], told["columns"]) == ("d.t", ["a", "text"])
    assert (told["rows"], told["hidden_rows"]) == (ROWS, DELETED)
    assert told["size_bytes"] == target.stat().st_size
    exported = pq.read_table(target)
    assert exported.to_pydict() == {"a": list(range(ROWS)), "text": [str(number) for number in range(ROWS)]}
    assert pq.read_table(segment).column_names == ["#1", "#2"], "in the segment, columns have no names"
    before = target.read_bytes()
    again = standalone(directory, "--export", segment.stem, "--to", str(target))
    again.refused(3, "ALREADY_EXISTS", "out.parquet")
    assert target.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node-1", "out.parquet"]


def test_what_can_not_be_exported_leaves_no_file(directory: Path, tmp_path: Path) -> None:
    both, _ = table_ids(directory)
    damaged, lost = files(directory, both)
    garble(damaged)
    lost.unlink()
    target = tmp_path / "out.parquet"
    for segment, code in ((damaged.stem, "CORRUPT"), (lost.stem, "SEGMENT_MISSING"), ("../../etc", "NO_SEGMENT")):
        standalone(directory, "--export", segment, "--to", str(target)).refused(3, code)
    _, one = table_ids(directory)
    sound = files(directory, one)[0].stem
    nowhere = tmp_path / "nowhere" / "out.parquet"
    standalone(directory, "--export", sound, "--to", str(nowhere)).refused(3, "NOT_WRITTEN", "nowhere")
    assert [path.name for path in tmp_path.iterdir()] == ["node-1"]


def test_no_export_goes_into_the_directory_of_a_node(directory: Path, tmp_path: Path) -> None:
    both, _ = table_ids(directory)
    segment = files(directory, both)[0].stem
    (tmp_path / "link").symlink_to(directory / "segments")
    before = everything_below(directory).keys()
    for target in (
        directory / "vault.db-reset",
        directory / "trash" / "out.parquet",
        tmp_path / "link" / "out.parquet",
    ):
        standalone(directory, "--export", segment, "--to", str(target)).refused(3, "NOT_WRITTEN", str(directory))
    assert everything_below(directory).keys() == before
