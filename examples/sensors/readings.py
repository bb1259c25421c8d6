"""Readings as files: made up from a seed, or of this machine. A line is a JSON object with `sensor`, `at` and `value`.

A file appears whole, under its name, or not at all: the pipeline may look at any moment.
"""

import json
import math
import random
import time
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

DAYS = 3
EVERY_MINUTES = 5
HOUSE = {"kitchen": (20.0, 3.0), "cellar": (12.0, 1.0), "roof": (15.0, 12.0), "boiler": (60.0, 15.0)}
"""The mean of each sensor, and how far a day goes from it."""
BAD: tuple[str | dict[str, Any], ...] = (
    '{"sensor": "kitchen", "at": "2026',
    {"sensor": None, "at": "{at}", "value": 20.0},
    {"sensor": "attic", "at": "{at}", "value": 20.0},
    {"sensor": "kitchen", "at": None, "value": 20.0},
    {"sensor": "kitchen", "at": "{future}", "value": 20.0},
    {"sensor": "kitchen", "at": "{past}", "value": 20.0},
    {"sensor": "kitchen", "at": "{at}", "value": None},
    {"sensor": "kitchen", "at": "{at}", "value": 451.0},
)
"""A line for each rule, in the order of `pipeline.RULES`."""


def put(path: Path, lines: Iterable[dict[str, Any] | str]) -> None:
    """Makes the file if it is not there. Spark passes over names that begin with a point."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
    draft.replace(path)


def written(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def of_a_house(drawn: random.Random, begin: datetime, hours: int) -> list[dict[str, Any]]:
    """What the sensors of a house read."""
    times = [begin + timedelta(minutes=minute) for minute in range(0, hours * 60, EVERY_MINUTES)]
    return [
        {"sensor": sensor, "at": written(at), "value": round(mean - swing * math.cos(_turn(at)) + drawn.gauss(0, 1), 2)}
        for at in times
        for sensor, (mean, swing) in HOUSE.items()
    ]


def _turn(at: datetime) -> float:
    return (at.hour * 60 + at.minute) / 1440 * 2 * math.pi


def bad_lines(at: datetime) -> list[dict[str, Any] | str]:
    """One for each rule."""
    far = timedelta(days=400)
    times = {"{at}": written(at), "{future}": written(at + far), "{past}": written(at - far)}
    return [
        one if isinstance(one, str) else {key: times.get(str(value), value) for key, value in one.items()}
        for one in BAD
    ]


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def land(landing: Path, seed: int, today: date) -> None:
    """The readings of the last days, in files of eight hours, each with a line that breaks a rule."""
    drawn = random.Random(seed)
    for number in range(DAYS * 3):
        begin = midnight(today) - timedelta(days=DAYS, hours=-8 * number)
        lines = [*of_a_house(drawn, begin, 8), bad_lines(begin)[number % len(BAD)]]
        drawn.shuffle(lines)
        put(landing / "readings" / f"{begin:%Y-%m-%d-%H}.json", lines)


def land_later(landing: Path, seed: int, today: date) -> None:
    """What comes afterwards: the first of the days once more, calibrated, and late readings of the last one."""
    drawn = random.Random(seed + 1)
    first = midnight(today) - timedelta(days=DAYS)
    put(landing / "days" / f"{first:%Y-%m-%d}.json", [*of_a_house(drawn, first, 24), bad_lines(first)[-1]])
    late = of_a_house(drawn, midnight(today) - timedelta(hours=3), 2)  # other values of known readings
    late += [{**one, "at": one["at"].replace(":00Z", ":30Z")} for one in late]  # and readings that are new
    put(landing / "late" / f"{today:%Y-%m-%d}.json", [*late, *bad_lines(first)[:2]])


def of_this_machine(readings: int) -> list[dict[str, Any]]:
    """How busy this machine is, once a second."""
    lines: list[dict[str, Any]] = []
    for _ in range(readings):
        time.sleep(1)
        values = {
            "cpu": psutil.cpu_percent(),
            "memory": psutil.virtual_memory().percent,
            "disk": psutil.disk_usage("/").percent,
        }
        at = written(datetime.now(UTC))
        lines += [{"sensor": sensor, "at": at, "value": value} for sensor, value in values.items()]
    return lines


def land_machine(landing: Path, readings: int) -> None:
    """A new file each time."""
    put(landing / "readings" / f"machine-{datetime.now(UTC):%Y-%m-%d-%H-%M-%S}.json", of_this_machine(readings))
