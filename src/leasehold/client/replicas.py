"""A scan's calls to replicas over Flight: the port `Replicas` of `core/data/attempts.py`, which blocks."""

from collections.abc import AsyncGenerator

import pyarrow as pa
from pyarrow import flight

from leasehold.core.words.messages import BatchMark, ReadTicket
from leasehold.wire.flight import calling, expect, reader_to, within
from leasehold.wire.flight import ticket as as_ticket


class FlightReplicas:
    """Calls replicas that have to answer with batches of exactly `schema`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def open(self, address: str, ticket: ReadTicket, timeout_ns: int) -> "FlightBatches":
        """A call to the replica at `address`; nothing is sent yet."""
        return FlightBatches(self._schema, address, ticket, within(timeout_ns, ticket))


class FlightBatches:
    """One call."""

    def __init__(self, schema: pa.Schema, address: str, ticket: ReadTicket, options: flight.FlightCallOptions) -> None:
        self._schema = schema
        self._address = address
        self._ticket = ticket
        self._options = options
        self._stream: flight.FlightStreamReader | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Ends the call. One that waits for its first message ends by its deadline alone."""
        self._is_cancelled = True
        stream = self._stream
        if stream is not None:
            stream.cancel()

    async def batches(self) -> AsyncGenerator[tuple[pa.RecordBatch | None, BatchMark], None]:
        """What the replica sends. Raises why it sends no more, unless it says that this was all."""
        with calling(self._address):
            self._stream = stream = reader_to(self._address).do_get(as_ticket(self._ticket), self._options)
        try:
            while not self._is_cancelled:
                with calling(self._address):
                    if not stream.schema.equals(self._schema, check_metadata=True):
                        raise pa.ArrowInvalid("the replica serves another schema than was asked for")
                    try:
                        chunk = stream.read_chunk()
                    except StopIteration:
                        return
                yield chunk.data, expect(BatchMark, chunk.app_metadata)
        finally:
            stream.cancel()
