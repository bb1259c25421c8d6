"""Many small files in the folder of a local open become one file for Spark.

Spark takes about a millisecond for each file that it reads, however few rows the file has; Arrow takes a tenth of that.
The links of small files are replaced by one file with the same rows, in the same folder: so it goes when the folder is
taken away (docs/decisions/0071-the-driver-joins-small-files.md). All files of a folder are read alike
(`core/data/read_groups.py`), and so is the one that stands for them. It keeps no bounds, since the files hardly had any
rows to skip.

What can't be read, such as a damaged file, is left to Spark's own reader, which says what is wrong with which file. If
the disk is full, all links stay.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from leasehold.limits.local import JOINED_AT_ONCE, JOINED_BYTES_MAX, JOINED_FILE_BYTES_MAX, JOINED_FILES_MIN
from leasehold.limits.segments import PAGE_BYTES

JOINED: Final = "joined.parquet"
_HIDDEN: Final = f".{JOINED}"
"""Until it is whole; Spark reads no file of such a name."""


def join_small_files(folders: Sequence[Path], columns: pa.Schema) -> None:
    """Joins the small files of each folder, if it has many. Only `columns` of them are kept."""
    room = JOINED_BYTES_MAX
    if not len(columns):
        return
    with ThreadPoolExecutor(max_workers=min(JOINED_AT_ONCE, os.cpu_count() or 1)) as threads:
        for folder in folders:
            small = list(_small_files(folder, room))
            if len(small) < JOINED_FILES_MIN:
                continue
            room -= sum(size for _, size in small)
            # The node may take the folder away meanwhile: then the open has ended.
            with suppress(OSError):
                _Joining(folder, columns).join([path for path, _ in small], threads)


def _small_files(folder: Path, room: int) -> Iterator[tuple[Path, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for one in entries:
            size = one.stat(follow_symlinks=False).st_size
            if size <= JOINED_FILE_BYTES_MAX and size <= room:
                room -= size
                yield Path(one.path), size


class _Joining:
    def __init__(self, folder: Path, columns: pa.Schema) -> None:
        self._folder = folder
        self._columns = columns

    def join(self, files: Sequence[Path], threads: ThreadPoolExecutor) -> None:
        hidden = self._folder / _HIDDEN
        joined: list[Path] = []
        try:
            with pq.ParquetWriter(
                hidden,
                self._columns,
                compression="zstd",
                compression_level=1,
                use_dictionary=False,
                write_statistics=False,
                write_page_checksum=True,
                store_schema=False,
            ) as writer:
                for rows in self._row_groups(iter(files), threads, joined):
                    writer.write_table(rows, row_group_size=max(1, rows.num_rows))
            hidden.rename(self._folder / JOINED)
        except OSError:
            with suppress(OSError):
                hidden.unlink()
            raise
        for one in joined:
            one.unlink()

    def _row_groups(self, files: Iterator[Path], threads: ThreadPoolExecutor, joined: list[Path]) -> Iterator[pa.Table]:
        """The rows of `files` in tables of about a page for each column; `joined` tells from which files they are."""
        held: list[pa.Table] = []
        held_bytes = 0
        while some := list(islice(files, JOINED_AT_ONCE)):
            for path, rows in zip(some, threads.map(self._read, some), strict=True):
                if rows is not None:
                    held.append(rows)
                    held_bytes += rows.get_total_buffer_size()
                    joined.append(path)
            if held_bytes >= PAGE_BYTES * len(self._columns):
                yield pa.concat_tables(held)
                held, held_bytes = [], 0
        if held:
            yield pa.concat_tables(held)

    def _read(self, path: Path) -> pa.Table | None:
        """The rows of a file; None if it is not as those of nodes are, or has many row groups."""
        try:
            with pq.ParquetFile(pa.OSFile(str(path)), page_checksum_verification=True) as file:
                if file.metadata.num_row_groups != 1:
                    return None
                found = file.read(self._columns.names, use_threads=False)
        except (OSError, pa.ArrowException):
            return None
        if found.schema.types != self._columns.types:
            return None
        return pa.Table.from_arrays(found.columns, schema=self._columns)
