"""What a member of ZooKeeper tells about itself: its answer to `srvr`, the only word that members obey by default."""

import asyncio
import contextlib
import re
import ssl
from typing import Final

import msgspec

from leasehold.limits.units import SECOND_NS
from leasehold.limits.zookeeper import ZOOKEEPER_STATUS_BYTES_MAX
from leasehold.metastorage.log.store import StoreUnsuitable
from leasehold.metastorage.tries import TryFailed
from leasehold.metastorage.zookeeper.failures import connecting

_VERSION: Final = re.compile(r"Zookeeper version: ([^\s,]{1,80})")
_MODE: Final = re.compile(r"Mode: ([a-z-]{1,20})")
_ALONE: Final = "not currently serving requests"
_FORBIDDEN: Final = "not in the whitelist"
UNKNOWN: Final = "unknown"


class ZooKeeperStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The release, and whether this member leads."""

    version: str
    leads: bool


async def ask_status(address: str, context: ssl.SSLContext | None, *, timeout_ns: int) -> ZooKeeperStatus:
    """Raises `TryFailed` if nobody answers, or a member that has no quorum; `StoreUnsuitable` if it is no ZooKeeper."""
    try:
        async with asyncio.timeout(timeout_ns / SECOND_NS):
            with connecting(address):
                answer = await _srvr(address, context)
    except TimeoutError as error:
        raise TryFailed("no answer in time", may_happen=False) from error
    if not answer:
        raise TryFailed("the connection broke at once: perhaps it speaks TLS only", may_happen=False)
    return _read(address, answer.decode(errors="replace"))


async def _srvr(address: str, context: ssl.SSLContext | None) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(
        host.strip("[]"), int(port), ssl=context, limit=ZOOKEEPER_STATUS_BYTES_MAX
    )
    try:
        writer.write(b"srvr")
        answer = bytearray()
        while len(answer) < ZOOKEEPER_STATUS_BYTES_MAX and (piece := await reader.read(ZOOKEEPER_STATUS_BYTES_MAX)):
            answer += piece
    finally:
        writer.transport.abort()  # a close would wait for a TLS peer that hangs, longer than the caller has
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return bytes(answer)


def _read(address: str, answer: str) -> ZooKeeperStatus:
    if _ALONE in answer:
        raise TryFailed("ZooKeeper answers: no leader", may_happen=False)
    version, mode = _VERSION.search(answer), _MODE.search(answer)
    if version is None and _FORBIDDEN not in answer:
        raise StoreUnsuitable(f"what listens at {address} is not ZooKeeper", hint="check the endpoints")
    return ZooKeeperStatus(
        version=version[1].partition("-")[0] if version else UNKNOWN,
        leads=mode is not None and mode[1] in {"leader", "standalone"},
    )
