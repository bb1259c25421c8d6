"""DDL: what each transaction of a statement writes (`procedure`)."""

from leasehold.core.ddl.procedure import (
    Begun,
    Request,
    begin,
    cleaned,
    cleaning,
    close,
    ended,
    finish,
    leader_changes,
    leave_pending,
    roll_back,
)

__all__ = [
    "Begun",
    "Request",
    "begin",
    "cleaned",
    "cleaning",
    "close",
    "ended",
    "finish",
    "leader_changes",
    "leave_pending",
    "roll_back",
]
