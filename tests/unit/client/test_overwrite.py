"""New rows of an overwrite, and the values whose old rows they replace."""

import msgspec
import pyarrow as pa
import pytest

from leasehold.client.overwrite import new_rows
from leasehold.core.data.replacement import Overwrite
from leasehold.core.words.records import Field, UseState
from leasehold.ids import FieldId, ObjectId
from leasehold.storage.schema import arrow_schema
from tests.unit.client.query_words import plan

AT_US = 1_700_000_000_000_000
WRAP_US = 2**16 * 3_652_425 * 24 * 3_600 * 100
"""65,536 years: Arrow's text of a timestamp with a time zone has the last 16 bits of the year."""


@pytest.mark.parametrize(
    ("instant_us", "expected"),
    [
        (AT_US, "2023-11-14 22:13:20.000000"),
        (AT_US + WRAP_US, f"<value out of range: {AT_US + WRAP_US}>"),
    ],
)
def test_a_timestamp_far_away_is_not_taken_for_one_of_another_year(instant_us: int, expected: str) -> None:
    field = Field(id=FieldId(1), name="at", type="TIMESTAMP", nullable=True, state=UseState.IN_USE)
    schema = arrow_schema((field,))
    batch = pa.RecordBatch.from_arrays([pa.array([instant_us], pa.int64()).cast(schema.types[0])], schema=schema)
    begun = Overwrite(
        table=ObjectId(1), where=(), filters=(), isolation="serializable", seen=frozenset(), deletes=0, by=field
    )
    values: set[str] = set()
    facts = msgspec.structs.replace(plan().facts, fields=(field,))
    list(new_rows([batch], facts, begun, values))
    assert values == {expected}
