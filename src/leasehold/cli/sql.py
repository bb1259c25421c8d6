"""`leasehold sql`: runs one statement, and shows what became of it.

A definition or question is sent to the coordinator; a SELECT or INSERT runs here (`cli/query.py`).
"""

import contextlib
import sys
from pathlib import Path

from leasehold.cli.interrupt import interrupted_by
from leasehold.cli.login import connected
from leasehold.cli.output import Countdown, Output, Retrying, RowsOutput, show_json, show_table
from leasehold.cli.receipt import show_receipt
from leasehold.cli.statement import read_statement, read_timeout_ns
from leasehold.client.coordinators import Coordinators
from leasehold.core.messages import Receipt, WaitingFor
from leasehold.errors import BadSettings, ExitCode, LeaseholdError, OutcomeUnknown
from leasehold.ids import NodeId, StatementId
from leasehold.limits import SECOND_NS
from leasehold.sql.kind import StatementKind, kind_of
from leasehold.wire.entropy import SystemEntropy


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
    """`-` for `text` reads it from stdin. Answers how it ended, raises what the leader says."""
    if text == "-":
        text = read_statement(sys.stdin)
    kind = kind_of(text)
    if kind is StatementKind.SELECT:
        if statement_id or timeout:
            raise BadSettings("a SELECT takes no --id and no --timeout", hint="Ctrl-C ends it")
        from leasehold.cli.query import show_query

        show_query(directory, user, text, output, to)
        return ExitCode.DONE
    if to is not None or output not in {RowsOutput.TABLE, RowsOutput.JSON}:
        raise BadSettings(f"--to and -o {output} are for the rows of a SELECT", hint="use -o table or -o json")
    shown = Output(output.value)
    client = Coordinators
    if kind is StatementKind.INSERT:
        if timeout:
            raise BadSettings("an INSERT takes no --timeout", hint="Ctrl-C ends it, --id tells what became of it")
        from leasehold.client.cluster import Cluster

        client = Cluster
    timeout_s = None if timeout is None else read_timeout_ns(timeout) / SECOND_NS
    countdown, retrying = Countdown(), Retrying()

    def waiting(message: WaitingFor) -> None:
        countdown.update(message.nodes, message.at_most_ns)

    chosen = statement_id or StatementId(SystemEntropy().hex_128())
    with (
        connected(client, directory, user, on_retry=retrying.update) as cluster,
        interrupted_by(lambda: _unknown(chosen)) as ended,
    ):
        try:
            answer = cluster.sql(
                text, statement_id=chosen, is_new_id=statement_id is None, on_wait=waiting, timeout=timeout_s
            )
        except OutcomeUnknown as error:
            if shown is Output.JSON:
                show_json({"outcome": "UNKNOWN", "statement_id": chosen, "error": error.code, "text": error.text})
            raise
        finally:
            countdown.done()
            retrying.done()
        if isinstance(answer, Receipt):
            ended()
            names: dict[NodeId, str] = {}
            # The statement has ended, whatever becomes of the question how its nodes are called.
            with contextlib.suppress(LeaseholdError):
                names = {node.id: node.name for node in cluster.status().nodes}
            return show_receipt(answer, names, shown)
    if shown is Output.JSON:
        show_json({"columns": list(answer.columns), "rows": [list(row) for row in answer.rows]})
    else:
        show_table(answer.columns, answer.rows)
    return ExitCode.DONE


def _unknown(statement: StatementId) -> LeaseholdError:
    return OutcomeUnknown(
        "interrupted: the statement may have happened, or happen yet",
        hint=f"ask again with the same statement and `--id {statement}`: it is never run twice",
        statement_id=statement,
    )
