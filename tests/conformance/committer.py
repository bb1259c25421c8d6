"""Commits for ever, several at once, and says each acknowledged key and revision: a process to be killed."""

import asyncio
import sys
from pathlib import Path

from leasehold.core.words.operations import Change, Txn
from leasehold.metastorage.sqlite import SqliteMetaStorage


async def commit(storage: SqliteMetaStorage, run: str, writer: int) -> None:
    number = 0
    while True:
        key = f"{run}/{writer}/{number}".encode()
        result = await storage.txn(Txn(then=(Change(key, key), Change(b"shared", key))))
        sys.stdout.write(f"{key.decode()} {result.revision}\n")
        sys.stdout.flush()
        number += 1


async def main(path: Path, run: str) -> None:
    storage = await SqliteMetaStorage.open(path)
    await asyncio.gather(*(commit(storage, run, writer) for writer in range(4)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
