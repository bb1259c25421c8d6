"""What tests of stores on etcd say often."""

import asyncio

from leasehold.errors import Indefinite
from leasehold.metastorage.etcd.store import EtcdStore


async def until_it_answers(store: EtcdStore) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.get("log/head")
            except Indefinite:
                continue
            return
