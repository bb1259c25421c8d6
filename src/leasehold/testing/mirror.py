"""The one truth of a simulated log: a meta storage that applies each entry at the instant at which it is appended."""

from collections.abc import Callable

from leasehold.core.log.entry import BEGINNING, DoesNotFollow, follow
from leasehold.core.words.codec import decode_record
from leasehold.core.words.records import LeaderRecord, LogBody, LogEntry, LogPosition
from leasehold.ids import Term
from leasehold.metastorage.log.log import HEAD, TERM, entry_key, part_key
from leasehold.metastorage.log.store import Swap
from leasehold.testing.log_news import EntryAppended, LogState
from leasehold.testing.log_store import KeptLog
from leasehold.testing.metastorage import MemoryStore


class LogMirror:
    """Hears each swap that happens in a log, and fills a store with what it appends."""

    def __init__(self, kept: KeptLog, store: MemoryStore) -> None:
        self._kept = kept
        self._store = store
        self._position = BEGINNING
        self._term = Term(0)
        self.on_append: list[Callable[[EntryAppended], None]] = []
        self.on_election: list[Callable[[LeaderRecord], None]] = []
        kept.on_swap.append(self._hear)

    def _hear(self, swap: Swap) -> None:
        if TERM in swap.puts:
            record = decode_record(LeaderRecord, swap.puts[TERM])
            self._term = record.term
            for hear in self.on_election:
                hear(record)
        if HEAD in swap.puts:
            head = decode_record(LogPosition, swap.puts[HEAD])
            if head != BEGINNING:
                self._append(head.number)

    def _append(self, number: int) -> None:
        entry = decode_record(LogEntry, self._value(entry_key(number)))
        parts = [self._value(part_key(entry, index)) for index in range(entry.parts)]
        blob = b"".join(parts) if parts else entry.body
        try:
            self._position, body = follow(self._position, entry, blob)
            follows = True
            self._store.apply(body)
        except DoesNotFollow:
            body, follows = decode_record(LogBody, blob), False
        state = LogState.of(self._position, self._store)
        told = EntryAppended(entry=entry, body=body, newest_term=self._term, follows=follows, state=state)
        for hear in self.on_append:
            hear(told)

    def _value(self, key: str) -> bytes:
        found = self._kept.get(key)
        assert found is not None, "it was written before, or with the head"
        return found.value
