"""What may stand at the head of a log."""

from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import LogFillingRecord, LogPosition, MetaMoveRecord, Record
from leasehold.errors import Corrupt
from leasehold.metastorage.moved import MetaUnfinished, moved


def position_in(value: bytes) -> LogPosition:
    """The position of the newest entry. Raises `MetaMoved` for a log that was moved, `MetaUnfinished` for one that is
    being filled. Each append compares the head, so nobody appends to either."""
    match decode_record(Record, value):
        case LogPosition() as position:
            return position
        case MetaMoveRecord() as move:
            raise moved("the log in the store", move)
        case LogFillingRecord():
            raise unfinished()
        case other:
            raise Corrupt(f"a stored {type(other).__name__} was found instead of the head of the log")


def unfinished() -> MetaUnfinished:
    """The error for a log that is being filled."""
    return MetaUnfinished(
        "the store holds a part of a meta storage: a move to it was interrupted, or goes on",
        hint="run the same `leasehold meta migrate` again; to give the move up, delete the keys of that name",
    )
