"""What the meta storage of a coordinator that does not run holds of a statement."""

import shutil
import sqlite3
import tempfile
from pathlib import Path

from leasehold.core.words import keys
from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import Outcome, ProcedureRecord, StatementRecord
from leasehold.ids import StatementId


def standing(directory: Path, statement: StatementId) -> str:
    """How far a statement had come: NOTHING, the step of its procedure, or its outcome. Looks at a copy: the next
    coordinator finds it as it was left."""
    with tempfile.TemporaryDirectory() as copied:
        for file in directory.glob("meta.db*"):
            shutil.copy(file, copied)
        connection = sqlite3.connect(Path(copied) / "meta.db")
        newest = "SELECT value FROM kv WHERE key = ? ORDER BY revision DESC LIMIT 1"
        try:
            found = connection.execute(newest, (keys.statement(statement),)).fetchone()
            if found is None:
                return "NOTHING"
            record = decode_record(StatementRecord, found[0])
            if record.outcome is not Outcome.RUNNING:
                return record.outcome.value
            (blob,) = connection.execute(newest, (keys.procedure(record.order),)).fetchone()
            return decode_record(ProcedureRecord, blob).step.value
        finally:
            connection.close()
