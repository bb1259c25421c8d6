"""`leasehold sql`: runs one statement, and shows its outcome.

A definition or question is sent to the coordinator; a SELECT or INSERT runs here (`cli/query.py`).
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

from leasehold.cli.interrupt import interrupted_by
from leasehold.cli.login import connected
from leasehold.cli.output import Countdown, Output, RowsOutput, show_json, show_table
from leasehold.cli.receipt import show_receipt
from leasehold.cli.statement import read_statement, read_timeout_s
from leasehold.client.coordinators import Coordinators
from leasehold.core.questions.certificates import CERTIFICATE_COLUMN, is_ending
from leasehold.core.words.messages import Receipt
from leasehold.errors import BadSettings, ExitCode, LeaseholdError, OutcomeUnknown
from leasehold.ids import NodeId, StatementId
from leasehold.sql.kind import StatementKind, kind_of
from leasehold.wire.clock import BoottimeClock


def run_statement(
    directory: Path,
    user: str | None,
    text: str,
    *,
    statement_id: StatementId | None,
    timeout: str | None,
    output: RowsOutput,
    to: Path | None,
) -> ExitCode:
    """Runs `text`, or stdin if it is `-`. Raises the leader's errors."""
    if text == "-":
        text = read_statement(sys.stdin)
    kind = kind_of(text)
    if kind is StatementKind.SELECT:
        if statement_id:
            raise BadSettings("a SELECT takes no --id", hint="end it with Ctrl-C, then run it again")
        from leasehold.cli.query import show_query

        show_query(directory, user, text, output, to, timeout)
        return ExitCode.DONE
    if to is not None or output not in {RowsOutput.TABLE, RowsOutput.JSON}:
        raise BadSettings(f"--to and -o {output} are for the rows of a SELECT", hint="use -o table or -o json")
    shown = Output(output.value)
    client = Coordinators
    if kind is StatementKind.INSERT:
        from leasehold.client.cluster import Cluster

        client = Cluster
    timeout_s = read_timeout_s(timeout)
    sent = [statement_id] if statement_id else []

    with (
        connected(client, directory, user, on_new_id=lambda drawn: sent.append(StatementId(drawn))) as cluster,
        interrupted_by(lambda: _unknown(sent[0]) if sent else None) as ended,
    ):
        try:
            with Countdown() as countdown:
                answer = cluster.sql(text, statement_id=statement_id, on_wait=countdown.update, timeout=timeout_s)
        except OutcomeUnknown as error:
            if shown is Output.JSON:
                show_json({"outcome": "UNKNOWN", "statement_id": sent[0], "error": error.code, "text": error.text})
            raise
        if isinstance(answer, Receipt):
            ended()
            names: dict[NodeId, str] = {}
            # The statement has ended, even if the names of its nodes can't be looked up.
            with contextlib.suppress(LeaseholdError):
                names = {node.id: node.name for node in cluster.status().nodes}
            return show_receipt(answer, names, shown)
    if shown is Output.JSON:
        show_json({"columns": list(answer.columns), "rows": [list(row) for row in answer.rows]})
    else:
        show_table(answer.columns, answer.rows, _warns)
    return ExitCode.DONE


def _warns(column: str, value: Any) -> bool:
    return column == CERTIFICATE_COLUMN and is_ending(value, BoottimeClock().wall_us() // 1_000_000)


def _unknown(statement: StatementId) -> LeaseholdError:
    return OutcomeUnknown(
        "interrupted: the statement may have happened, or happen yet",
        hint=f"ask again with the same statement and `--id {statement}`: it is never run twice",
        statement_id=statement,
    )
