"""What clients asked about tables and were answered, as the operations of a history (`linearizability.py`).

Objects are tables, and columns of tables that only CREATE TABLE, ADD COLUMN and DROP COLUMN change. What a statement
finds and leaves follows from its text. What is known of it follows from its answer:

| answer | steps |
| --- | --- |
| COMMITTED, COMMITTED_PENDING | one, at the revision of the receipt |
| COMMITTED, and nobody was waited for | one, or there was nothing to do |
| ROLLED_BACK | two, of which the second takes the first one back, or none |
| refused, or no coordinator took it | none |
| no answer | any number of these two |
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Outcome
from leasehold.core.words.statements import (
    AddColumns,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    RenameTable,
    TableName,
    fold,
)
from leasehold.errors import Definite, Unreachable
from leasehold.ids import Revision
from leasehold.testing.catalog import parsed
from leasehold.testing.linearizability import ONCE, CatalogObject, CatalogStep, Operation, Value

THERE: Final = ""
MAYBE: Final = frozenset({0, 1})
ROLLED_BACK: Final = frozenset({0, 2})
UNKNOWN: Final = frozenset({0, 1, 2})


class AskedStatement(Protocol):
    """A statement, and what its client knows of it."""

    text: str
    asked_ns: int
    answered_ns: int
    """0 where no answer came in time; `heard` may have been found out later."""

    @property
    def heard(self) -> Receipt | Definite | Unreachable | None:
        """An error says that nothing was done."""
        ...


class CatalogAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a coordinator to SHOW TABLES or DESCRIBE."""

    what: str
    asked_ns: int
    answered_ns: int
    revision: Revision
    shown: frozenset[CatalogObject]
    """The objects that are there, as far as the answer tells."""
    of: CatalogObject = ()
    """Which objects it tells of: those whose names begin so, and are one word longer. Empty for all tables."""


def operations(
    statements: Iterable[AskedStatement],
    answers: Iterable[CatalogAnswer],
    *,
    columns_of: frozenset[CatalogObject] = frozenset(),
) -> list[Operation]:
    """The history of all tables, and of the columns of these tables."""
    answers = list(answers)
    asked = [(one, _step(one.text, columns_of)) for one in statements]
    objects = frozenset[CatalogObject]().union(*(one.shown for one in answers))
    objects |= frozenset(each for _, step in asked for each in (*step.found, *step.left) if len(each) > 1)
    history = [each for one, step in asked for each in _statement(one, step, objects)]
    return [*history, *(_read(one, objects) for one in answers)]


def table_object(name: TableName) -> CatalogObject:
    return fold(name.database), fold(name.table)


def _step(text: str, columns_of: frozenset[CatalogObject]) -> CatalogStep:
    """What a statement finds and leaves if it does something; nothing if it does something else. A name of one word
    stands for each table of that database."""
    match parsed(text):
        case CreateTable(name=name, columns=columns):
            known = columns if table_object(name) in columns_of else ()
            made = [(*table_object(name), fold(column.name)) for column in known]
            return _changes(dict.fromkeys([table_object(name), *made], THERE))
        case DropTable(table=name):
            return _changes({table_object(name): None})
        case RenameTable(table=name, to=to):
            return _changes({table_object(name): None, table_object(to): THERE})
        case DropDatabase(name=database, cascade=True):
            return CatalogStep(left={(fold(database),): None})
        case DropDatabase(name=database):
            return CatalogStep(found={(fold(database),): None})
        case AddColumns(table=name, columns=columns) if table_object(name) in columns_of:
            return _changes({(*table_object(name), fold(column.name)): THERE for column in columns})
        case DropColumn(table=name, column=column) if table_object(name) in columns_of:
            return _changes({(*table_object(name), fold(column)): None})
        case _:
            return CatalogStep()


def _changes(left: Mapping[CatalogObject, Value]) -> CatalogStep:
    return CatalogStep(found={one: None if value == THERE else THERE for one, value in left.items()}, left=left)


def _statement(one: AskedStatement, step: CatalogStep, objects: frozenset[CatalogObject]) -> Iterator[Operation]:
    heard, answered_ns = one.heard, one.answered_ns or None
    step = CatalogStep(found=_each(step.found, objects), left=_each(step.left, objects))
    if isinstance(heard, Definite | Unreachable):
        return
    said = Operation(what=one.text, invoked_ns=one.asked_ns, answered_ns=answered_ns, steps=(step,))
    if isinstance(heard, Receipt) and heard.outcome is not Outcome.ROLLED_BACK:
        if heard.settled or heard.pending:
            yield msgspec.structs.replace(said, revision=heard.revision)
        else:
            yield msgspec.structs.replace(said, ends=MAYBE)
    elif step.left:
        ends = UNKNOWN if heard is None else ROLLED_BACK
        # What DROP DATABASE CASCADE finds is not known: each table is an operation, which may have happened alone.
        parts = [step] if step.found else [_changes({each: None}) for each in step.left]
        for part in parts:
            yield msgspec.structs.replace(said, steps=(part, CatalogStep(found=part.left, left=part.found)), ends=ends)


def _each(values: Mapping[CatalogObject, Value], objects: frozenset[CatalogObject]) -> dict[CatalogObject, Value]:
    """A database stands for each of its tables."""
    whole: dict[CatalogObject, Value] = {}
    for name, value in values.items():
        tables = [one for one in objects if len(one) == 2 and one[:1] == name] if len(name) == 1 else [name]
        whole |= dict.fromkeys(tables, value)
    return whole


def _read(answer: CatalogAnswer, objects: frozenset[CatalogObject]) -> Operation:
    words = len(answer.of) + 1 if answer.of else 2
    about = [one for one in objects if len(one) == words and one[: len(answer.of)] == answer.of]
    found = {one: THERE if one in answer.shown else None for one in about}
    return Operation(
        what=answer.what,
        invoked_ns=answer.asked_ns,
        answered_ns=answer.answered_ns,
        steps=(CatalogStep(found=found),),
        ends=ONCE,
        revision=answer.revision,
    )
