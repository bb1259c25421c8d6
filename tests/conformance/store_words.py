"""What tests of stores say often."""

import asyncio

from leasehold.errors import Indefinite
from leasehold.metastorage.log.store import LogStore


async def until_it_answers(store: LogStore) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.get("log/head")
            except Indefinite:
                continue
            return
