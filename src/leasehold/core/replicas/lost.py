"""Lost segments: all nodes that held them were removed by force."""

from collections.abc import Iterable

from leasehold.core.words.records import SegmentRecord
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused


def lost(segments: Iterable[SegmentRecord]) -> tuple[SegmentRecord, ...]:
    """Those of a plan that no node holds."""
    return tuple(one for one in segments if not one.holders)


def check_nothing_lost(table: str, segments: Iterable[SegmentRecord]) -> None:
    """Raises `Refused` with code SEGMENTS_LOST if a plan can't be read to its end."""
    missing = lost(segments)
    if missing:
        rows = sum(one.rows for one in missing)
        more = "" if len(missing) == 1 else f" and {len(missing) - 1} others"
        raise Refused(
            f"{rows} rows of {table} are lost: all nodes that held segment {missing[0].id}{more} were removed",
            code=ErrorCode.SEGMENTS_LOST,
            hint=f"write these rows again after `leasehold forget-lost {table}`, which gives them up: a scan"
            " returns all"
            " rows of its table or none",
        )
