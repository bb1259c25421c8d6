"""The life of one append, until it is known whether it happened.

An append is one conditional write: it happens only while the head and the term are as they were. A try that gets no
answer may happen at once, late or never. So the head is read, and the same entry is sent again under its own id:

| state | event | next |
| --- | --- | --- |
| sending | the store did it | appended |
| sending | the store declined, and every try was answered | not appended |
| sending | the store declined, and some try was not answered | looking |
| sending | no answer | looking |
| looking | the head is the one before, and nothing was declined since | sending |
| looking | the head is the one before, and the store declined: another term has begun | not appended |
| looking | the head is this entry | appended |
| looking | the head is another one of this number | not appended |
| looking | the head lies beyond | reading |
| reading | the entry of this number has this id | appended |
| reading | it has another id | not appended |
| reading | it is trimmed | unknown |

Once the store has declined an append whose head still stands, its term is over for good, and no late try can happen
any more. A head of this number or beyond means the same.
"""

from enum import Enum, auto

from leasehold.core.words.records import LogEntry, LogPosition


class AppendState(Enum):
    """What is to be done next, or what became of the append."""

    SENDING = auto()
    LOOKING = auto()
    """Read the head."""
    READING = auto()
    """Read the entry of this number."""
    APPENDED = auto()
    NOT_APPENDED = auto()
    UNKNOWN = auto()


FINAL = frozenset({AppendState.APPENDED, AppendState.NOT_APPENDED, AppendState.UNKNOWN})


class Append:
    """One append. Its `state` says what to do; the outcome of that is an event."""

    def __init__(self, entry: LogEntry) -> None:
        self.state = AppendState.SENDING
        self._entry = entry
        self.is_unsure = False
        """Some try was not answered."""
        self._declined = False

    def answered(self, *, done: bool) -> None:
        """The store did the append, or declined since head or term are others."""
        assert self.state is AppendState.SENDING
        if done:
            self.state = AppendState.APPENDED
        elif self.is_unsure:
            self._declined = True
            self.state = AppendState.LOOKING
        else:
            self.state = AppendState.NOT_APPENDED

    def unanswered(self) -> None:
        """There was no answer, to whatever was asked."""
        if self.state is AppendState.SENDING:
            self.is_unsure = True
            self.state = AppendState.LOOKING

    def head_is(self, head: LogPosition) -> None:
        """The head, read after the last event."""
        assert self.state is AppendState.LOOKING
        if head.number < self._entry.number:
            self.state = AppendState.NOT_APPENDED if self._declined else AppendState.SENDING
        elif head.number == self._entry.number:
            self.state = self._outcome(head.id == self._entry.id)
        else:
            self.state = AppendState.READING

    def entry_is(self, entry: LogEntry | None) -> None:
        """The entry of this number, None if it is trimmed."""
        assert self.state is AppendState.READING
        self.state = AppendState.UNKNOWN if entry is None else self._outcome(entry.id == self._entry.id)

    @staticmethod
    def _outcome(is_ours: bool) -> AppendState:
        return AppendState.APPENDED if is_ours else AppendState.NOT_APPENDED
