"""Which rows the tables of examples/sensors must have, told from its files alone, in plain Python."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from examples.sensors.pipeline import ACCEPTED, SENSORS

from leasehold.client.cluster import Cluster

Reading = tuple[str, datetime, float]


class Judged(NamedTuple):
    """A line of a file."""

    file: Path
    landed: float
    reason: str | None
    reading: Reading


class Tables(NamedTuple):
    """What they have, in no order."""

    readings: Counter[Reading]
    quarantine: Counter[tuple[str, str]]
    """The file, and the rule."""
    hourly: dict[tuple[str, datetime], tuple[int, float, float, float]]


def expected(landing: Path) -> Tables:
    lines = {place: list(_lines(landing / place)) for place in ("readings", "days", "late")}
    bad = Counter((one.file.name, one.reason) for lines_of in lines.values() for one in lines_of if one.reason)
    good = {place: [one for one in found if one.reason is None] for place, found in lines.items()}
    days = {one.file.stem for one in lines["days"]}
    kept = [one.reading for one in good["readings"] if str(one.reading[1].date()) not in days]
    kept += [one.reading for one in good["days"]]
    late = {one.reading[:2]: one.reading for one in sorted(good["late"], key=lambda one: (one.landed, one.file))}
    kept = [late.get(one[:2], one) for one in kept]
    readings = Counter([*kept, *(late[key] for key in late.keys() - {one[:2] for one in kept})])
    return Tables(readings, bad, rolled_up(readings))


def stored(cluster: Cluster, database: str) -> Tables:
    def rows(name: str) -> list[dict[str, Any]]:
        return cluster.table(f"{database}.{name}").scan().read_all().to_pylist()

    return Tables(
        Counter((one["sensor"], one["at"], one["value"]) for one in rows("readings")),
        Counter((one["file"].rpartition("/")[2], one["reason"]) for one in rows("quarantine")),
        {
            (one["sensor"], one["hour"]): (one["readings"], one["low"], round(one["mean"], 6), one["high"])
            for one in rows("hourly")
            if one["readings"]
        },
    )


def rolled_up(readings: Counter[Reading]) -> dict[tuple[str, datetime], tuple[int, float, float, float]]:
    values: defaultdict[tuple[str, datetime], list[float]] = defaultdict(list)
    for sensor, at, value in readings.elements():
        values[sensor, at.replace(minute=0, second=0)].append(value)
    return {key: (len(one), min(one), round(sum(one) / len(one), 6), max(one)) for key, one in values.items()}


def _lines(folder: Path) -> Iterator[Judged]:
    for file in sorted(folder.glob("*.json")):
        landed = file.stat().st_mtime
        for line in file.read_text().splitlines():
            yield _judged(file, landed, line)


def _judged(file: Path, landed: float, line: str) -> Judged:
    try:
        read = json.loads(line)
    except ValueError:
        return Judged(file, landed, "not readable", ("", datetime.now(UTC), 0.0))
    sensor, value = read["sensor"], read["value"]
    at = None if read["at"] is None else datetime.fromisoformat(read["at"])
    came = datetime.fromtimestamp(landed, UTC)
    reason = None
    if isinstance(value, str):
        reason = "not readable"
    elif sensor is None:
        reason = "no sensor"
    elif sensor not in SENSORS:
        reason = "unknown sensor"
    elif at is None:
        reason = "no time"
    elif at > came + timedelta(minutes=5):
        reason = "in the future"
    elif at < came - ACCEPTED:
        reason = "too old"
    elif value is None:
        reason = "no value"
    elif not SENSORS[sensor][0] <= value <= SENSORS[sensor][1]:
        reason = "out of range"
    return Judged(file, landed, reason, (sensor, at, value))  # type: ignore[arg-type]
