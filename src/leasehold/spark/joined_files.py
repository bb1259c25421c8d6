"""Many small files in a folder of a local open become one file for Spark.

Spark takes about a millisecond for each file that it reads, however few rows the file has; Arrow takes a tenth of that.
So a second folder is made beside the first: it has one file with the rows of all small files, and links to the others.
It goes when the folder of the open is taken away (docs/decisions/0071-the-driver-joins-small-files.md). All files of a
folder are read alike (`core/data/read_groups.py`), and so is the one that stands for them. It keeps no bounds, since
the files hardly had any rows to skip.

What can't be read, such as a damaged file, is left to Spark's own reader, which says what is wrong with which file. If
the disk is full, the first folder is read.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from leasehold.limits.local import JOINED_BYTES_MAX, JOINED_FILE_BYTES_MAX, JOINED_FILES_MIN
from leasehold.limits.segments import PAGE_BYTES

JOINED: Final = "joined.parquet"


def join_small_files(folders: Sequence[Path], columns: pa.Schema) -> list[Path]:
    """The folders to read in place of these, which may have `columns` of their small files alone."""
    joining = _Joining(columns)
    return [joining.joined(one) for one in folders] if len(columns) else list(folders)


class _Joining:
    """Joins small files of some folders, up to JOINED_BYTES_MAX together."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns
        self._room = JOINED_BYTES_MAX

    def joined(self, folder: Path) -> Path:
        """The folder to read in place of this one: itself if it has few small files, or the disk is full."""
        made = folder.with_name(f"{folder.name}-joined")
        try:
            small = self._small_files(folder)
            if len(small) < JOINED_FILES_MIN:
                return folder
            made.mkdir(mode=0o700)
            written = self._write(made / JOINED, small)
            with os.scandir(folder) as entries:
                for one in entries:
                    if one.name not in written:
                        os.link(one.path, made / one.name, follow_symlinks=False)
        except OSError:  # as also if the node has taken the open away
            shutil.rmtree(made, ignore_errors=True)
            return folder
        return made

    def _small_files(self, folder: Path) -> dict[str, str]:
        """The small files of a folder: their names, and their paths."""
        found: dict[str, str] = {}
        left = self._room
        with os.scandir(folder) as entries:
            for one in entries:
                size_bytes = one.stat(follow_symlinks=False).st_size
                if size_bytes <= min(JOINED_FILE_BYTES_MAX, left):
                    left -= size_bytes
                    found[one.name] = one.path
        if len(found) >= JOINED_FILES_MIN:
            self._room = left
        return found

    def _write(self, joined: Path, small: Mapping[str, str]) -> set[str]:
        """Writes the rows of small files into one, and answers of which. Raises `OSError`."""
        written: set[str] = set()
        with pq.ParquetWriter(
            joined,
            self._columns,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        ) as writer:
            for rows in self._row_groups(small, written):
                writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        return written

    def _row_groups(self, small: Mapping[str, str], written: set[str]) -> Iterator[pa.Table]:
        """The rows of files in tables of about a page for each column; `written` gets the files that can be read."""
        held: list[pa.Table] = []
        held_bytes = 0
        for name, path in small.items():
            rows = self._read(path)
            if rows is None:
                continue
            held.append(rows)
            held_bytes += rows.get_total_buffer_size()
            written.add(name)
            if held_bytes >= PAGE_BYTES * len(self._columns):
                yield pa.concat_tables(held)
                held, held_bytes = [], 0
        if held:
            yield pa.concat_tables(held)

    def _read(self, path: str) -> pa.Table | None:
        """The rows of a file; None if it is not as those of nodes are, or has many row groups."""
        try:
            # Arrow reads a small file from memory in two thirds of the time that it takes to read it from the disk.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC), "rb", buffering=0) as opened:
                content = pa.BufferReader(opened.read(JOINED_FILE_BYTES_MAX))
            with pq.ParquetFile(content, page_checksum_verification=True) as file:
                if file.metadata.num_row_groups != 1:
                    return None
                found = file.read(self._columns.names, use_threads=False)
        except (OSError, pa.ArrowException):
            return None
        if found.schema.types != self._columns.types:
            return None
        return pa.Table.from_arrays(found.columns, schema=self._columns)
