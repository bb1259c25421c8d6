"""The conditions of a scan: bound to the columns of its table, and held against what is known of each segment."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from leasehold.core.catalog.catalog import fields_named
from leasehold.core.words.bounds import comparable
from leasehold.core.words.literals import fit
from leasehold.core.words.messages import FieldFilter, Filter, ReadTicket
from leasehold.core.words.records import ColumnStatistics, Field, SegmentRecord, TableRecord
from leasehold.core.words.skipping import Test, may_fulfil
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.limits.statements import FILTER_BYTES_MAX, FILTER_VALUES_MAX, FILTERS_MAX, LITERAL_CHARACTERS_MAX

_OPPOSITE: Final = {
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
    "IS NULL": "IS NOT NULL",
    "IS NOT NULL": "IS NULL",
}
"""By comparison the one that holds for all other values. A NULL fulfils neither."""


def planned_filters(
    where: tuple[Filter, ...], table: TableRecord, *, values_max: int = FILTER_VALUES_MAX
) -> tuple[FieldFilter, ...]:
    """The conditions on the columns of a table. Raises `NotFound`, `Refused` (BAD_VALUE, TOO_MANY_CONDITIONS)."""
    if not _are_few(where, values_max):
        raise Refused(
            f"{len(where)} conditions with {sum(len(one.values) for one in where)} values",
            code=ErrorCode.TOO_MANY_CONDITIONS,
            hint=f"write at most {FILTERS_MAX} conditions and {values_max} values, of {FILTER_BYTES_MAX} bytes; "
            "filter the rows that come",
        )
    fields = fields_named(table, (one.column for one in where))
    return tuple(_planned(one, field) for one, field in zip(where, fields, strict=True))


def _are_few(where: tuple[Filter, ...], values_max: int) -> bool:
    """Whether a ticket has room for so many conditions and for their values."""
    values = [value.text for one in where for value in one.values]
    if len(where) > FILTERS_MAX or len(values) > values_max:
        return False
    return sum(len(one.encode(errors="replace")) for one in values) <= FILTER_BYTES_MAX


def _planned(asked: Filter, field: Field) -> FieldFilter:
    if not _has_its_values(asked):
        raise Refused(f"{asked.operator} has {len(asked.values)} values", code=ErrorCode.BAD_MESSAGE)
    if asked.operator == "STARTS WITH" and field.type != "STRING":
        raise Refused(
            f"column {field.name} is {field.type}, and only a STRING starts with other text",
            code=ErrorCode.BAD_VALUE,
            hint="compare it with =, <, <=, >, >= or IN",
        )
    fitted = [fit(value, field.type, column=field.name) for value in asked.values]
    values = tuple(one for one in fitted if one is not None)
    if len(values) < len(fitted):
        raise Refused(
            f"column {field.name} is compared with NULL, which is true for no value",
            code=ErrorCode.BAD_VALUE,
            hint=f"write {field.name} IS NULL",
        )
    return FieldFilter(field=lean(field), operator=asked.operator, values=values)


def lean(field: Field) -> Field:
    """Without what only people and writers look at: that does not travel with each segment."""
    return msgspec.structs.replace(field, default=None, comment="")


def _has_its_values(one: Filter | FieldFilter) -> bool:
    match one.operator:
        case "IN":
            return len(one.values) > 0
        case "IS NULL" | "IS NOT NULL":
            return not one.values
        case _:
            return len(one.values) == 1


def may_hold(where: tuple[FieldFilter, ...], segments: Iterable[SegmentRecord]) -> list[SegmentRecord]:
    """The segments that may hold a row that fulfils all conditions."""
    tests = [(one.field.id, may_fulfil(one.field, one.operator, one.values)) for one in where]
    wanted = {one.field.id for one in where}

    def may(segment: SegmentRecord) -> bool:
        if not segment.statistics:
            return True
        known = {one.field: one for one in segment.statistics if one.field in wanted}
        return all(test(known.get(field), segment.rows) for field, test in tests)

    return [one for one in segments if may(one)] if where else list(segments)


def holds_only(where: tuple[FieldFilter, ...]) -> Callable[[SegmentRecord], bool]:
    """Whether all rows of a segment fulfil all conditions, by its statistics."""
    tests = [(one.field.id, _fulfilling(one)) for one in where]

    def only(segment: SegmentRecord) -> bool:
        known = {one.field: one for one in segment.statistics}
        return not tests or (bool(known) and all(test(known.get(field), segment.rows) for field, test in tests))

    return only


def _fulfilling(where: FieldFilter) -> Test:
    """Whether all rows fulfil one condition."""

    def may(operator: str) -> Test:
        return may_fulfil(where.field, operator, where.values)

    match where.operator:
        case "=" | "IN":
            has_it = may(where.operator)

            def is_one(known: ColumnStatistics | None, rows: int) -> bool:
                if known is not None and (known.nulls or known.minimum is None or known.minimum != known.maximum):
                    return False
                return has_it(known, rows)  # all rows have one value

            return is_one
        case "IS NULL" | "IS NOT NULL":
            opposite = may(_OPPOSITE[where.operator])
            return lambda known, rows: not opposite(known, rows)
        case "STARTS WITH":
            return lambda _known, _rows: False
        case _:
            null, opposite = may("IS NULL"), may(_OPPOSITE[where.operator])
            return lambda known, rows: not null(known, rows) and not opposite(known, rows)


def are_sound(
    where: tuple[FieldFilter, ...], fields: tuple[Field, ...], *, values_max: int = FILTER_VALUES_MAX
) -> bool:
    """Whether the conditions of a ticket for `fields` are as a leader plans them, within their bounds."""
    kinds = {one.id: one.type for one in fields}
    if any(kinds.setdefault(one.field.id, one.field.type) != one.field.type for one in where):
        return False
    values = [value for one in where for value in one.values]
    if len(where) > FILTERS_MAX or len(values) > values_max:
        return False
    if any(one.operator == "STARTS WITH" and one.field.type != "STRING" for one in where):
        return False
    return all(len(one) <= 2 * LITERAL_CHARACTERS_MAX for one in values) and all(map(_can_be_compared, where))


def _can_be_compared(one: FieldFilter) -> bool:
    value_of, initial = comparable(one.field.type), one.field.initial
    if value_of is not None:
        try:
            values = [value_of(text) for text in (*one.values, *(() if initial is None else (initial,)))]
            if any(value != value for value in values):  # noqa: PLR0124 - no literal is NaN
                return False
        except (ValueError, ArithmeticError):
            return False
    return _has_its_values(one)


def columns_read(ticket: ReadTicket) -> tuple[Field, ...]:
    """The columns that a ticket sends, and those that its conditions are about, each once."""
    return columns_of(ticket.fields, ticket.where)


def columns_of(chosen: tuple[Field, ...], where: tuple[FieldFilter, ...]) -> tuple[Field, ...]:
    """The columns that are chosen, and those that conditions are about, each once."""
    fields = {one.id: one for one in chosen}
    for one in where:
        fields.setdefault(one.field.id, one.field)
    return tuple(fields.values())
