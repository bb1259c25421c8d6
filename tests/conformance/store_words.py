"""What tests of stores say often."""

import asyncio

from leasehold.errors import Indefinite
from leasehold.metastorage.log.store import LogStore
from leasehold.testing.requests import BeforeHook, RequestFate


async def until_it_answers(store: LogStore) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.get("log/head")
            except Indefinite:
                continue
            return


def every_other_read_is_stale() -> BeforeHook:
    """The first one, the third one and so on; the others are asked of another member."""
    is_stale = False

    async def before(request: str) -> RequestFate:
        nonlocal is_stale
        await asyncio.sleep(0)
        if not request.startswith(("get", "page")):
            return RequestFate.ANSWERED
        is_stale = not is_stale
        return RequestFate.STALE if is_stale else RequestFate.ANSWERED

    return before
