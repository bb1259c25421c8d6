"""Examples of every record and message, and the file of their golden bytes.

`python -m tests.golden.examples` adds what is missing to the file and touches nothing that is in it: bytes that
were ever written stay readable, so an entry is never edited. A changed shape needs a new tag.
"""

import json
from pathlib import Path
from typing import get_args

from msgspec import inspect

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import Message
from leasehold.core.words.records import AnyRecord

GOLDEN = Path(__file__).parent / "v1.json"
UNIONS = {"records": AnyRecord, "messages": Message}


def members(union):
    """Tag and class of each member."""
    return {kind.__struct_config__.tag: kind for kind in get_args(union)}


def example(kind, *, full):
    """One value of a struct: `full` with everything there, else with what may be absent absent.

    It follows from the struct alone, each field's value from its name, type and place. A field that came later has a
    default, which the least value has: its bytes are those that were written before.
    """
    fields = sorted(inspect.type_info(kind).fields, key=lambda field: not field.required)
    values = {field.name: _value(field.type, field.name, place, full) for place, field in enumerate(fields, 1)}
    return kind(**{field.name: values[field.name] for field in fields if full or field.required})


def _value(info, name, place, full):
    match info:
        case inspect.StructType() | inspect.NamedTupleType():
            return example(info.cls, full=full)
        case inspect.UnionType():
            absent = any(isinstance(one, inspect.NoneType) for one in info.types)
            there = [one for one in info.types if not isinstance(one, inspect.NoneType)]
            return None if absent and not full else _value(there[0], name, place, full)
        case inspect.VarTupleType():
            return (_value(info.item_type, name, place, full),) if full else ()
        case inspect.TupleType(item_types=kinds):
            return tuple(_value(one, name, place, full) for one in kinds)
        case inspect.DictType(value_type=inspect.StrType()):
            return {name: "value"} if full else {}
        case inspect.DictType():
            return {name: _value(info.value_type, name, place, full)} if full else {}
        case inspect.EnumType():
            members_of = list(info.cls)
            return members_of[-1 if full else 0]
        case inspect.LiteralType():
            return info.values[-1 if full else 0]
        case inspect.IntType():
            # Both the shortest encoding of an integer and the longest.
            return (3_000_000_000_000_000_000 if name.endswith("_ns") else 70_000) + place if full else place
        case inspect.FloatType():
            return place + 0.5
        case inspect.BoolType():
            return full
        case inspect.StrType():
            return f"{name} é" if full else ""
        case inspect.BytesType():
            return bytes(range(224, 256)) if full else b""
        case _:
            raise AssertionError(f"no example of a {info} yet: add one here")


def variants(kind):
    """The examples of a struct by name."""
    return {"full": example(kind, full=True), "least": example(kind, full=False)}


def load():
    """What was written so far: hex by group, tag and variant."""
    return json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {group: {} for group in UNIONS}


def add_missing(golden):
    """The same with an entry for each tag that had none; says which were added."""
    added = []
    for group, union in UNIONS.items():
        for tag, kind in members(union).items():
            if tag not in golden[group]:
                golden[group][tag] = {name: encode(one).hex() for name, one in variants(kind).items()}
                added.append(tag)
    return added


if __name__ == "__main__":
    entries = load()
    if add_missing(entries):
        GOLDEN.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")
