"""Literals: what a person wrote, as the value of a column, in the one spelling that records keep.

| type | the text in records |
| --- | --- |
| BOOLEAN | `true`, `false` |
| TINYINT .. BIGINT | decimal digits, `-` before them |
| FLOAT, DOUBLE | the shortest digits that give the double back; of a FLOAT after rounding to it |
| DECIMAL(p,s) | decimal digits, exactly s of them after the point |
| STRING, BINARY | the characters; the bytes in lower-case hex |
| DATE, TIMESTAMP | days, and microseconds, since 1970 UTC |

Nothing is rounded but a FLOAT or DOUBLE. Days are counted by the algorithm of H. Hinnant, "chrono-compatible low-level
date algorithms": years begin in March, and the proleptic Gregorian calendar repeats every 400 of them.
"""

import decimal
import math
import re
import struct
from typing import Final

from leasehold.core.words.statements import Literal
from leasehold.core.words.types import Decimal, Plain, parse_type
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import DECIMAL_PRECISION_MAX, LITERAL_CHARACTERS_MAX

_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_SHOWN: Final = 60
"""Characters of what a person wrote that an error repeats."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?)?"
    r"(?: ?(Z|UTC|([+-])([0-9]{2}):([0-9]{2})))?",
    re.ASCII,
)
_EXACT: Final = decimal.Context(prec=4 * LITERAL_CHARACTERS_MAX)
_DAY_US: Final = 86_400_000_000
_ERA_DAYS: Final = 146_097
_MONTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 2
_OFFSET_MINUTES_MAX: Final = 18 * 60


def fit(literal: Literal, type_text: str, *, column: str) -> str | None:
    """The value as records keep it, None for NULL; raises `Refused` (BAD_VALUE) where it is none of that type."""
    if literal.kind == "null":
        return None
    if len(literal.text) > 2 * LITERAL_CHARACTERS_MAX:
        raise _bad(literal, type_text, column, f"at most {LITERAL_CHARACTERS_MAX} characters or bytes")
    match parse_type(type_text):
        case Decimal(precision, scale):
            fitted, hint = _decimal(literal, precision, scale), f"write a number with at most {scale} decimals"
        case Plain("BOOLEAN"):
            fitted, hint = _boolean(literal), "write TRUE or FALSE"
        case Plain("FLOAT" | "DOUBLE" as name):
            fitted, hint = _floating(literal, name), "write a number within its range"
        case Plain("STRING"):
            fitted, hint = _string(literal), f"write at most {LITERAL_CHARACTERS_MAX} characters in quotes"
        case Plain("BINARY"):
            fitted, hint = _binary(literal), f"write X'..' with at most {LITERAL_CHARACTERS_MAX} bytes in hex"
        case Plain("DATE"):
            fitted, hint = _date(literal), "write DATE 'YYYY-MM-DD'"
        case Plain("TIMESTAMP"):
            fitted, hint = _timestamp(literal), "write TIMESTAMP 'YYYY-MM-DD HH:MM:SS', with an offset if it is not UTC"
        case Plain(name):
            bits = _BITS[name]
            fitted, hint = _integer(literal, bits), f"write a whole number from -2^{bits - 1} to 2^{bits - 1} - 1"
    if fitted is None:
        raise _bad(literal, type_text, column, hint)
    return fitted


def _bad(literal: Literal, type_text: str, column: str, hint: str) -> Refused:
    shown = literal.text if len(literal.text) <= _SHOWN else literal.text[:_SHOWN] + ".."
    text = f"{literal.kind} {shown!r} is no value of column {column}, which is {type_text}"
    return Refused(text, code=ErrorCode.BAD_VALUE, hint=hint)


def render(text: str | None, type_text: str) -> str:
    """The SQL literal of a value that `fit` gave for that type."""
    if text is None:
        return "NULL"
    match parse_type(type_text):
        case Plain("BOOLEAN"):
            return text.upper()
        case Plain("STRING"):
            escaped = text.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case Plain("BINARY"):
            return f"X'{text.upper()}'"
        case Plain("DATE"):
            return f"DATE '{_render_day(int(text))}'"
        case Plain("TIMESTAMP"):
            return f"TIMESTAMP '{render_instant(int(text))}'"
        case _:
            return text


# ---------------------------------------------------------------- each type; None: not a value of it


def _boolean(literal: Literal) -> str | None:
    text = literal.text.lower()
    return text if literal.kind == "boolean" and text in {"true", "false"} else None


def _integer(literal: Literal, bits: int) -> str | None:
    if literal.kind != "number" or _INTEGER.fullmatch(literal.text) is None:
        return None
    value = int(literal.text)
    return str(value) if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _floating(literal: Literal, name: str) -> str | None:
    if literal.kind != "number" or _NUMBER.fullmatch(literal.text) is None:
        return None
    value = float(literal.text)
    if name == "FLOAT":
        try:
            value = float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return None
    return repr(value) if math.isfinite(value) else None


def _decimal(literal: Literal, precision: int, scale: int) -> str | None:
    if literal.kind != "number" or _NUMBER.fullmatch(literal.text) is None:
        return None
    value = decimal.Decimal(literal.text)
    if value and value.adjusted() >= DECIMAL_PRECISION_MAX:
        return None  # before it is written out: 1e9999 has many digits
    exact = value.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    if exact != value or exact.copy_abs() >= decimal.Decimal(10) ** (precision - scale):
        return None
    return f"{exact or exact.copy_abs():f}"


def _string(literal: Literal) -> str | None:
    sound = literal.kind == "string" and len(literal.text) <= LITERAL_CHARACTERS_MAX
    # Half of a surrogate pair is no character, and could not be written.
    return literal.text if sound and not any("\ud800" <= one <= "\udfff" for one in literal.text) else None


def _binary(literal: Literal) -> str | None:
    sound = literal.kind == "binary" and len(literal.text) % 2 == 0
    return literal.text.lower() if sound and re.fullmatch(r"[0-9a-fA-F]*", literal.text) is not None else None


def _date(literal: Literal) -> str | None:
    day = _day(literal.text) if literal.kind in {"date", "string"} else None
    return None if day is None else str(day)


def _timestamp(literal: Literal) -> str | None:
    match = _TIME.fullmatch(literal.text) if literal.kind in {"timestamp", "date", "string"} else None
    day = None if match is None else _day(match[1])
    if match is None or day is None:
        return None
    hours, minutes, seconds = (int(match[part] or 0) for part in (2, 3, 4))
    offset = int(match[8] or 0) * 60 + int(match[9] or 0)
    if hours > 23 or minutes > 59 or seconds > 59 or offset > _OFFSET_MINUTES_MAX or int(match[9] or 0) > 59:
        return None
    minutes += 60 * hours + (offset if match[7] == "-" else -offset)
    instant = day * _DAY_US + (60 * minutes + seconds) * 1_000_000 + int((match[5] or "").ljust(6, "0"))
    return str(instant) if _FIRST_DAY * _DAY_US <= instant < (_LAST_DAY + 1) * _DAY_US else None


# ---------------------------------------------------------------- the calendar


def _day(text: str) -> int | None:
    """Days since 1970 of `YYYY-MM-DD`, from year 1 on; None if there is no such day."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(part) for part in match.groups())
    if year == 0 or not 1 <= month <= len(_MONTHS):
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = _MONTHS[month - 1] + (1 if leap and month == _FEBRUARY else 0)
    return days_from_civil(year, month, day) if 1 <= day <= longest else None


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970 of a day of the proleptic Gregorian calendar."""
    year -= month <= _FEBRUARY
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > _FEBRUARY else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _ERA_DAYS + day_of_era - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day; the inverse of `days_from_civil`."""
    era, day_of_era = divmod(days + 719_468, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= _FEBRUARY), month, day_of_year - (153 * shifted + 2) // 5 + 1


_FIRST_DAY: Final = days_from_civil(1, 1, 1)
_LAST_DAY: Final = days_from_civil(9999, 12, 31)


def _render_day(days: int) -> str:
    year, month, day = civil_from_days(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def render_instant(instant_us: int) -> str:
    days, rest = divmod(instant_us, _DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    text = f"{_render_day(days)} {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{fraction:06d}".rstrip("0") if fraction else "") + "Z"
