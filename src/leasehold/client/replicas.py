"""Calls of scans and appends to replicas over Flight, which block: the ports `Replicas` of `core/data/attempts.py` and
`StagesRows` of `core/data/row_sender.py`."""

from collections.abc import AsyncGenerator, Callable, Sequence

import pyarrow as pa
from pyarrow import flight

from leasehold.core.words.codec import encode
from leasehold.core.words.messages import AnyReadTicket, BatchMark, Place, RowsEnd, StagedSegment, WriteTicket
from leasehold.errors import Unreachable
from leasehold.wire.flight import calling, descriptor, expect, reader_to, send, within, writer_to
from leasehold.wire.flight import ticket as as_ticket
from leasehold.wire.tls import TlsSource


class FlightReplicas:
    """Calls replicas that send or receive batches of exactly `schema`."""

    def __init__(self, schema: pa.Schema, tls: TlsSource | None) -> None:
        self._schema = schema
        self._tls = tls

    def open(self, place: Place, ticket: AnyReadTicket, timeout_ns: int) -> "FlightBatches":
        """A call to a replica; nothing is sent yet."""
        return FlightBatches(self._schema, self._tls, place, ticket, within(timeout_ns, ticket))

    async def stage(
        self,
        place: Place,
        ticket: WriteTicket,
        share: Sequence[pa.RecordBatch],
        timeout_ns: int,
        on_progress: Callable[[], None],
    ) -> StagedSegment:
        """Sends rows to a replica, and waits for its answer."""
        with calling(place.address):
            writer, answers = writer_to(place.address, self._tls, place.name).do_put(
                descriptor(ticket), self._schema, within(timeout_ns, ticket)
            )
            try:
                for batch in share:
                    send(writer, batch)
                    on_progress()
                writer.write_metadata(encode(RowsEnd(rows=sum(batch.num_rows for batch in share))))
                writer.done_writing()
                answer: pa.Buffer | None = answers.read()
            finally:
                # Raises why the node declined, if it did.
                writer.close()
        if answer is None:
            # A connection that was cut may show as an orderly end without an answer.
            raise Unreachable(f"{place.address}: the stream ended without an answer", hint="write the rows again")
        return expect(StagedSegment, answer)


class FlightBatches:
    """One scan of one replica."""

    def __init__(
        self,
        schema: pa.Schema,
        tls: TlsSource | None,
        place: Place,
        ticket: AnyReadTicket,
        options: flight.FlightCallOptions,
    ) -> None:
        self._schema = schema
        self._tls = tls
        self._place = place
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
        """The batches that the replica sends. Raises why it stops, unless it sent all of them."""
        with calling(self._place.address):
            client = reader_to(self._place.address, self._tls, self._place.name)
            self._stream = stream = client.do_get(as_ticket(self._ticket), self._options)
        try:
            while not self._is_cancelled:
                with calling(self._place.address):
                    if not stream.schema.equals(self._schema, check_metadata=True):
                        raise pa.ArrowInvalid("the replica serves another schema than was asked for")
                    try:
                        chunk = stream.read_chunk()
                    except StopIteration:
                        return
                    if chunk.data is not None:
                        # Not `full`: that would look at each value, and a scan would take a third longer.
                        chunk.data.validate()
                yield chunk.data, expect(BatchMark, chunk.app_metadata)
        finally:
            stream.cancel()
