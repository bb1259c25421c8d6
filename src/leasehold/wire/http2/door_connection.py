"""A connection to a door, on an event loop: TLS, HTTP/2, and the calls that begin on it."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, cast

from leasehold.limits.http2 import CONTROL_BYTES_MAX, HANDSHAKE_BYTES_MAX, SEND_AHEAD_BYTES, STALLED_NS
from leasehold.limits.sessions import KEEPALIVE_TIMEOUT_NS
from leasehold.limits.units import SECOND_NS
from leasehold.wire.http2.calls import IncomingCall
from leasehold.wire.http2.frames import ENHANCE_YOUR_CALM, NO_ERROR, SETTINGS, ConnectionFailed
from leasehold.wire.http2.grpc_messages import COPIED_BYTES_MAX, KIND
from leasehold.wire.http2.listening import has_gone
from leasehold.wire.http2.patience import PeerPatience, PeerVerdict
from leasehold.wire.http2.server_end import ServerEnd
from leasehold.wire.http2.shared_time import SharesTime
from leasehold.wire.http2.streams import CallBegun, CallStream, Event, PieceCame
from leasehold.wire.http2.tls_end import RECORD_BYTES, TlsEnd
from leasehold.wire.known_peers import PeerStanding
from leasehold.wire.peers import connection_name, peer_of

if TYPE_CHECKING:
    from leasehold.wire.http2.door_server import DoorServer


class DoorConnection(SharesTime, asyncio.BufferedProtocol):
    """Over TLS if it has a `context`."""

    def __init__(
        self,
        server: "DoorServer",
        door: int,
        context: ssl.SSLContext | None,
        accepted: socket.socket,
        host: str,
        port: int,
    ) -> None:
        super().__init__(server, peer_of(host))
        self.server = server
        self.door = door
        """Its number."""
        self.limits = server.limits
        self.http: ServerEnd
        self.accepted = accepted
        self._address = host, port
        self._context = context
        self._tls: TlsEnd | None = None
        self._transport: asyncio.Transport
        self._is_given = self._is_made = False
        """Whether it was given to the loop, and whether the loop has taken it over."""
        self.gave_way = self._is_paused = self._will_flush = False
        self._paused_ns = 0  # since when it is, if it is
        self._closing_ns: int | None = None
        self._is_cast_out = False
        """Whether the certificate that it has shown counts no more."""
        self._shake_bytes = HANDSHAKE_BYTES_MAX
        """How many more may come until TLS is done."""
        self._going: list[CallStream] = []
        """Calls that have been written, and may wait in the transport."""
        self._rested_ns = server.now_ns()
        self._patience: PeerPatience

    # For `SharesTime`.

    def stop_reading(self) -> None:
        self._transport.pause_reading()
        self.server.turns.wait(self.host, self)
        self.server.turn_soon()

    def has_ended(self) -> bool:
        return self._transport.is_closing()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._is_made = True
        of = self.server
        self._patience = PeerPatience(of.now_ns(), idle_ns=of.idle_ns, quiet_ns=of.quiet_ns, answer_ns=of.answer_ns)
        self._transport.set_write_buffer_limits(high=SEND_AHEAD_BYTES)
        if self._closing_ns is not None:
            self._transport.abort()
        elif self._tls is None:
            self.flush()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 as the loop calls it
        self.server.remove(self)
        self.taken_up()
        streams, self.http.streams = self.http.streams, {}
        for stream in streams.values():
            self.http.out.forget(stream)
        for stream in (*streams.values(), *self._going):
            if stream.receiver is not None:
                stream.receiver.reset()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 as the loop calls it
        return self.server.received[: self.receive_bytes()]

    def buffer_updated(self, nbytes: int) -> None:
        self._patience.heard(self.server.now_ns())
        self.receive(self.server.received[:nbytes])

    def go_on(self) -> None:
        """Its turn has come."""
        unread = self.taken_up()
        if self._is_made and self._transport.is_closing():
            return
        began_ns = self.server.now_ns()
        if has_gone(self.accepted):
            self.abort()
            self.spend(self.server.now_ns() - began_ns)
        elif not self._is_given:
            self.give()
        elif unread is not None:
            self._patience.heard(self.server.now_ns())
            self.look_at(memoryview(unread))
            if not self.is_waiting:
                self._transport.resume_reading()

    def give(self) -> None:
        """To the loop: until then it costs little."""
        began_ns = self.server.now_ns()
        try:
            self.http = ServerEnd(self.limits)
            self._tls = None if self._context is None else TlsEnd(self._context)
            self._is_given = True
            self.server.make(self)
        except Exception as fault:  # noqa: BLE001 as in `take`
            self.server.on_fault(fault)
            self.abort()
        self.spend(self.server.now_ns() - began_ns)

    def take(self, came: memoryview) -> bool:
        try:
            if self._tls is None:
                self._take_in(came)
            elif self._shakes(self._tls, came):
                self._read(self._tls)
                self._tls.keep()
        except (ssl.SSLError, ConnectionFailed) as error:
            self._break_off(error)
        except Exception as fault:  # noqa: BLE001 the border: what was not foreseen ends the connection, and not the loop
            self.server.on_fault(fault)
            self.abort()
        return self.http.has_more

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_paused = True
        self._paused_ns = self.server.now_ns()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._let_go()
        self.flush()

    # What comes.

    def _shakes(self, tls: TlsEnd, came: memoryview) -> bool:
        """Takes ciphertext in; whether the handshake is done."""
        if tls.is_open:
            tls.came(came)
            return True
        first, rest = came[: self._shake_bytes], came[self._shake_bytes :]
        self._shake_bytes -= len(first)
        tls.came(first)
        is_done = tls.shake()
        self._write(tls.ciphertext())
        if not is_done and rest:
            raise ssl.SSLError("a handshake over its bound")
        if is_done:
            self._judge()
            tls.came(rest)
            self.flush()
        return is_done

    def _read(self, tls: TlsEnd) -> None:
        if self.http.has_more:
            self._take_in(self.server.decrypted[:0])
        while not self._transport.is_closing() and not self.http.has_more:
            size, is_end = tls.read_into(self.server.decrypted)
            if size:
                self._take_in(self.server.decrypted[:size])
            answer = tls.ciphertext()
            if answer:  # OpenSSL answers by itself what asks for other keys
                self.http.allowance.spend(SETTINGS)
                self._write(answer)
            if is_end:
                self.close()
                return
            if size <= len(self.server.decrypted) - RECORD_BYTES:
                return

    def _take_in(self, chunk: memoryview) -> None:
        for event in self.http.receive(chunk):
            self._happen(event)
        if self._is_paused and self.http.out.control_bytes > CONTROL_BYTES_MAX:
            raise ConnectionFailed(ENHANCE_YOUR_CALM, "the peer takes no answers")
        if self.http.out.has_any():
            self.flush_soon()

    def _happen(self, event: Event) -> None:
        if isinstance(event, CallBegun):
            self._begin(event)
            return
        receiver = event.stream.receiver
        if receiver is None:
            return
        if isinstance(event, PieceCame):
            receiver.came(event.piece, ended=event.ended)
        else:
            receiver.reset()

    def _begin(self, begun: CallBegun) -> None:
        said = dict(begun.headers)
        if said.get(b":method") != b"POST" or not said.get(b"content-type", b"").startswith(KIND):
            self.http.refuse(begun.stream)
            return
        call = IncomingCall(self, begun.stream, self.server.message_bytes_max, said.get(self.server.kept_header))
        begun.stream.receiver = call
        path = said.get(b":path", b"").decode(errors="replace")
        self.begun_now += 1
        call.task = self.server.begin(call, path)

    # What goes.

    def flush_soon(self) -> None:
        """What several calls send in one turn of the loop goes out together."""
        if not self._will_flush:
            self._will_flush = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        began_ns = self.server.now_ns()
        self.flush()
        self.spend(self.server.now_ns() - began_ns)

    def flush(self) -> None:
        self._will_flush = False
        out = self.http.out
        if self._tls is not None and not self._tls.is_open:
            return
        while not self._is_paused and not self._transport.is_closing() and out.has_any():
            chunks = self.http.take(SEND_AHEAD_BYTES)
            ended, out.ended = out.ended, []
            drained, out.drained = out.drained, []
            self._going += ended
            try:
                self._send(chunks)
            except ssl.SSLError:
                self.abort()
                return
            if not self._is_paused:
                self._let_go()
            for stream in drained:
                if stream.receiver is not None:
                    stream.receiver.has_room()

    def _send(self, chunks: list[bytes | memoryview]) -> None:
        if self._tls is not None:
            self._transport.writelines(self._tls.encrypted(chunks))
        elif max(map(len, chunks), default=0) < COPIED_BYTES_MAX:
            self._write(b"".join(chunks))
        else:
            self._transport.writelines(chunks)

    def _let_go(self) -> None:
        """Little is left in the transport of what was written."""
        gone, self._going = self._going, []
        for stream in gone:
            if stream.receiver is not None:
                stream.receiver.gone()

    def _write(self, content: bytes) -> None:
        if content and not self._transport.is_closing():
            self._transport.write(content)

    # How it ends.

    def _break_off(self, error: Exception) -> None:
        if isinstance(error, ConnectionFailed):
            self._say_last(error.code, str(error))
        elif self._tls is not None:
            self._write(self._tls.ciphertext())  # the alert says why
        self.close()

    def _end(self, code: int) -> None:
        self._say_last(code)
        self.close()

    def _say_last(self, code: int, why: str = "") -> None:
        self.http.leave(code, why)
        self.flush()

    def leave(self) -> None:
        """Takes no further calls; those under way go on."""
        if self._is_made:
            self._say_last(NO_ERROR)
        else:
            self.abort()

    def close(self) -> None:
        """Ends it once what is written has gone, or soon."""
        if not self._is_made:
            self.abort()
        else:
            self._closing_ns = self.server.now_ns()
            self._transport.close()

    def abort(self) -> None:
        if self._is_made:
            self._transport.abort()
            return
        self._closing_ns = self.server.now_ns()
        if not self._is_given:  # else `connection_made` ends it
            self.accepted.close()
            self.server.remove(self)

    def _judge(self) -> None:
        """What its certificate is worth now. If that has become nothing, it begins no call any more; those under way
        hear from their handlers why they are refused, if they hurry."""
        before, self.standing = self.standing, self.server.standing(self.auth_context)
        if self.standing is before:
            return
        if self.standing is PeerStanding.NONE:
            self._is_cast_out = True
            self.leave()
        if self.is_of_member:
            self.server.found_member(self)
        elif before is PeerStanding.MEMBER:
            self.server.lost_member(self)

    def _end_silent_calls(self) -> None:
        """Others are answered; then the connection ends."""
        for stream in tuple(self.http.streams.values()):
            if stream.receiver is not None and stream.receiver.waits_for_peer():
                stream.receiver.cut_off()
        if not self.http.streams:
            self.close()

    def sweep(self, now_ns: int) -> None:
        """Ends it if its peer is late or silent."""
        if not self._is_made:
            return  # it waits for its turn
        if self._closing_ns is not None:
            if now_ns - self._closing_ns > KEEPALIVE_TIMEOUT_NS:
                self.abort()
            return
        if self._is_cast_out:
            self._end_silent_calls()
        elif self.has_begun:
            self._judge()
        if self.is_waiting:
            return  # it has said something, and waits for its turn
        if self._is_paused and now_ns - self._paused_ns > STALLED_NS:
            self.abort()
            return
        self.http.allowance.rested((now_ns - self._rested_ns) / SECOND_NS)
        self._rested_ns = now_ns
        verdict = self._patience.look(
            now_ns,
            is_open=self.has_begun,
            has_acknowledged=self.http.has_acknowledged,
            calls=len(self.http.streams),
            begun=self.http.begun,
        )
        match verdict:
            case PeerVerdict.ABORT:
                self.abort()
            case PeerVerdict.REFUSE:
                self._end(ENHANCE_YOUR_CALM)
            case PeerVerdict.CLOSE:
                self._end(NO_ERROR)
            case PeerVerdict.WARN:
                self.http.warn()
                self.flush()
            case PeerVerdict.ASK:
                self.http.ping()
                self.flush()
            case PeerVerdict.GOES_ON:
                pass

    @property
    def has_begun(self) -> bool:
        """Whether TLS is done, if it has that."""
        return self._is_given and (self._tls is None or self._tls.is_open)

    @cached_property
    def peer(self) -> str:
        return connection_name(*self._address)

    @cached_property
    def auth_context(self) -> Mapping[str, list[bytes]]:
        """What TLS says of the peer, by gRPC's names."""
        return {} if self._tls is None else self._tls.facts()
