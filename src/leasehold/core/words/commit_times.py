"""Commit times: when each revision was committed, by the wall clock of its leader.

A leader writes the time with each of its transactions, under `keys.COMMIT_TIME`. That key lies outside the watched
range, so no node gets the time, and the lineage does not cover it. The history of the key tells the time of every
revision that is kept. Times never decrease from one revision to the next. They order nothing: people use them to name a
revision.
"""

from leasehold.errors import Corrupt

COMMIT_TIME_BYTES = 8


def encode_commit_time(time_us: int) -> bytes:
    """Microseconds since 1970 UTC, the highest byte first."""
    return time_us.to_bytes(COMMIT_TIME_BYTES, "big")


def decode_commit_time(value: bytes) -> int:
    """Raises `Corrupt`."""
    if len(value) != COMMIT_TIME_BYTES:
        raise Corrupt(f"a stored commit time has {len(value)} bytes instead of {COMMIT_TIME_BYTES}")
    return int.from_bytes(value, "big")
