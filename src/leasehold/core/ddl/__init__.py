"""DDL: the life of a statement (`run`), and what each of its transactions writes (`procedure`).

| module | what it holds |
| --- | --- |
| `procedure` | what the transactions write: pre-state, point of no return, rollback, receipt |
| `decision` | what the first transaction is |
| `run`, `states` | a statement under one leader, as a state machine |
| `events`, `effects` | what the machine is fed with, and what it asks for |
| `receipts` | what clients are told |
"""

from leasehold.core.ddl.procedure import (
    Begun,
    Request,
    begin,
    close,
    ended,
    finish,
    leader_changes,
    leave_pending,
    procedure_to_cancel,
    record_of,
    roll_back,
)
