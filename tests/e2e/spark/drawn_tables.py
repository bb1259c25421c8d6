"""Tables that were altered at random, with rows of every type, and conditions on them."""

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from leasehold.client.cluster import Cluster
from leasehold.core.words.records import Field
from leasehold.errors import Refused
from leasehold.storage.schema import arrow_type

UTC = dt.UTC
OLD, LATE = dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    "BOOLEAN": (True, False),
    "TINYINT": (-128, -1, 0, 1, 127),
    "SMALLINT": (-32768, -128, 0, 128, 32767),
    "INT": (-(2**31), -32769, 0, 5, 32768, 2**31 - 1),
    "BIGINT": (-(2**63), -(2**31) - 1, 0, 5, 2**31, 2**63 - 1),
    "FLOAT": (0.0, -0.0, 1.5, -3.25, 0.10000000149011612, 3.4028234663852886e38, math.inf, -math.inf, math.nan),
    "DOUBLE": (0.0, -0.0, 0.1, 1.5, 1e300, 5e-324, math.inf, -math.inf, math.nan),
    "STRING": ("", "a", "ab", "b", "ä 漢 🙂", "x" * 3_000, 'it\'s \\ "so"', "\u0000", "\U0010ffff"),
    "BINARY": (b"", b"\x00", b"\x00\xff", b"ab", b"\xff" * 3_000),
    "DATE": (
        dt.date(1, 1, 1),
        dt.date(1582, 10, 14),
        dt.date(1969, 12, 31),
        dt.date(1970, 1, 1),
        dt.date(9999, 12, 31),
    ),
    "TIMESTAMP": (
        OLD,
        dt.datetime(1582, 10, 4, 1, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        dt.datetime(2021, 3, 28, 1, 30, 0, 1, UTC),
        LATE,
    ),
}
DECIMALS = ((4, 2), (9, 0), (18, 2), (20, 2), (38, 2), (38, 18))
WIDER = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT"),
    "SMALLINT": ("INT", "BIGINT"),
    "INT": ("BIGINT",),
    "FLOAT": ("DOUBLE",),
    **{f"DECIMAL({p},{s})": tuple(f"DECIMAL({q},{t})" for q, t in DECIMALS if t == s and q > p) for p, s in DECIMALS},
}
TYPES = (*VALUES, *(f"DECIMAL({precision},{scale})" for precision, scale in DECIMALS))
COMPARISONS = ("=", "<", "<=", ">", ">=")


def values(kind: str) -> tuple[Any, ...]:
    if not kind.startswith("DECIMAL"):
        return VALUES[kind]
    precision, scale = (int(one) for one in kind[8:-1].split(","))
    most = 10**precision - 1
    return tuple(Decimal(f"{one}e-{scale}") for one in (-most, -1, 0, 1, 50, most))


def literal(value: Any) -> str | None:
    """As SQL; None for what no literal can be."""
    match value:
        case bool():
            return str(value).upper()
        case float():
            return repr(value) if math.isfinite(value) else None
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'" if "\u0000" not in value else None
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            return f"TIMESTAMP '{value.year:04d}-{value:%m-%d %H:%M:%S.%f}Z'"
        case dt.date():
            return f"DATE '{value.year:04d}-{value:%m-%d}'"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def rows_of(found: pa.Table) -> list[str]:
    """In no order; NaN equals itself and the zeros differ."""
    columns = [one.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(one.type) else one for one in found.columns]
    plain = pa.table(columns, names=[str(place) for place in range(len(columns))])
    return sorted(map(repr, plain.to_pylist()))


class DrawnTable:
    """A table to which statements and rows come in turn."""

    def __init__(self, cluster: Cluster, name: str, random: Random) -> None:
        self.cluster = cluster
        self.name = name
        self.random = random
        self.log: list[str] = []
        self._rows = 0
        self._names = 0
        kinds = random.sample(TYPES, k=random.randint(3, 7))
        columns = [f"{self._new_name()} {kind}" for kind in kinds]
        options = random.choice(("", " CLUSTERED BY (id) INTO 2 BUCKETS"))
        if random.random() < 0.4:
            columns.append(f"clock {random.choice(('DATE', 'TIMESTAMP'))}")
            options += " TBLPROPERTIES ('time_column' = 'clock')"
        self.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, {', '.join(columns)}){options}")

    def grow(self) -> None:
        self.append()
        for _ in range(self.random.randint(3, 8)):
            steps: list[Callable[[], None]] = [self.append, self.append, self.add, self.swap, self.widen, self.widen]
            steps += [self.drop, self.add_again, self.move, self.delete, self.delete, self.expire, self.rewrite]
            self.random.choice(steps)()
        self.append()

    def fields(self) -> tuple[Field, ...]:
        return self.cluster.facts(self.name).fields

    def sql(self, text: str) -> None:
        self.log.append(text)
        self.cluster.sql(text)

    # ---------------------------------------------------------------- what comes to it

    def append(self) -> None:
        """Rows in a narrow range of values, so that statistics rule files out, or in all of them; some columns not."""
        count = self.random.randint(1, 12)
        columns: dict[str, pa.Array] = {}
        for field in self.fields():
            if field.name == "id":
                columns["id"] = pa.array(range(self._rows, self._rows + count), pa.int64())
            elif not field.nullable or self.random.random() < 0.9:
                known = values(field.type)
                some = self.random.sample(known, k=self.random.choice((1, 2, len(known))) % (len(known) + 1) or 1)
                nulls = field.nullable and self.random.random() < 0.6
                drawn = [
                    None if nulls and self.random.random() < 0.3 else self.random.choice(some) for _ in range(count)
                ]
                columns[field.name] = pa.array(drawn, arrow_type(field.type))
        self._rows += count
        self.log.append(f"append {pa.table(columns).to_pylist()}")
        self.cluster.table(self.name).append(pa.table(columns))

    def add(self, name: str | None = None) -> None:
        kind = self.random.choice(TYPES)
        default = literal(self.random.choice(self._comparable(kind)))
        how = self.random.choice(("", " DEFAULT", " NOT NULL DEFAULT"))
        text = f"{how} {default}" if how and default is not None else ""
        self.sql(f"ALTER TABLE {self.name} ADD COLUMN {name or self._new_name()} {kind}{text}")

    def swap(self) -> None:
        if len(free := self._free()) >= 2:
            one, two = self.random.sample(free, k=2)
            for old, new in ((one, "other"), (two, one), ("other", two)):
                self.sql(f"ALTER TABLE {self.name} RENAME COLUMN {old} TO {new}")

    def widen(self) -> None:
        found = [one for one in self.fields() if WIDER.get(one.type)]
        if found:
            one = self.random.choice(found)
            self.sql(f"ALTER TABLE {self.name} ALTER COLUMN {one.name} TYPE {self.random.choice(WIDER[one.type])}")

    def drop(self) -> str | None:
        if not (free := self._free()):
            return None
        name = self.random.choice(free)
        try:
            self.sql(f"ALTER TABLE {self.name} DROP COLUMN {name}")
        except Refused as error:
            assert error.code == "COLUMN_IN_USE", "a DELETE needs it"
            self.log.append("-- refused")
            return None
        return name

    def add_again(self) -> None:
        if (name := self.drop()) is not None:
            if self.random.random() < 0.5:
                self.append()
            self.add(name)

    def move(self) -> None:
        if free := self._free():
            self.sql(f"ALTER TABLE {self.name} ALTER COLUMN {self.random.choice(free)} FIRST")

    def delete(self) -> None:
        conditions = [one for one in (self.condition(COMPARISONS) for _ in range(self.random.randint(1, 2))) if one]
        if conditions:
            self.sql(f"DELETE FROM {self.name} WHERE {' AND '.join(conditions)}")

    def expire(self) -> None:
        if any(one.name == "clock" for one in self.fields()):
            self.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('ttl' = '{self.random.choice((1000, 40_000))}d')")

    def rewrite(self) -> None:
        self.log.append("rewrite")
        self.cluster.compact(self.name)

    # ---------------------------------------------------------------- conditions

    def condition(self, operators: tuple[str, ...]) -> str | None:
        """One that a scan takes as well as a query of Spark; None where the column has no such value."""
        field = self.random.choice(self.fields())
        known = [one for one in map(literal, self._comparable(field.type)) if one is not None]
        if not known:
            return None
        operator = self.random.choice(operators)
        match operator:
            case "IN":
                return f"{field.name} IN ({', '.join(self.random.choices(known, k=self.random.randint(1, 3)))})"
            case "IS NULL" | "IS NOT NULL":
                return f"{field.name} {operator}"
            case "LIKE":
                start = self.random.choice(("", "a", "x", "ä"))
                return f"{field.name} LIKE '{start}%'" if field.type == "STRING" else None
            case _:
                return f"{field.name} {operator} {self.random.choice(known)}"

    def spark_condition(self) -> str:
        """One that only Spark evaluates: it is pushed down as far as Spark can."""
        field = self.random.choice(self.fields())
        value = self.random.choice(self._comparable(field.type))
        if isinstance(value, float):
            text = f"CAST('{value!r}' AS {field.type})"
        elif isinstance(value, str) and "\u0000" in value:
            text = "char(0)"
        else:
            text = str(literal(value))
        if isinstance(value, int | Decimal) and not isinstance(value, bool) and self.random.random() < 0.3:
            text = f"{text}BD" if isinstance(value, Decimal) else f"{text}L" if value > -(2**63) else "-1L"
        name, other = field.name, self.random.choice(self.fields()).name
        forms = [f"{name} {one} {text}" for one in (*COMPARISONS, "<>", "<=>")]
        forms += [f"NOT ({name} <= {text})", f"{name} IN ({text})", f"{name} NOT IN ({text})", f"{name} IS NULL"]
        forms += [f"{name} IS NOT NULL", f"({name} = {text} OR {other} IS NULL)", f"coalesce({name} > {text}, true)"]
        return self.random.choice(forms)

    def _comparable(self, kind: str) -> tuple[Any, ...]:
        """Values of the type, short ones, since a literal is bounded."""
        return tuple(one for one in values(kind) if not isinstance(one, str | bytes) or len(one) < 100)

    def _free(self) -> list[str]:
        return [one.name for one in self.fields() if one.name not in {"id", "clock"}]

    def _new_name(self) -> str:
        self._names += 1
        return f"c{self._names}"
