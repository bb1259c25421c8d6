"""The supervisor: the parent of a node or a coordinator, which reports its end and starts it again.

`leasehold node start` and `leasehold coordinator` become this program, which starts the command anew as its child
(`cli/supervised.py`) and then waits. It runs without Leasehold's packages, so it stays small and can't fail with them:
it knows no protocol. The child hands it, over a channel that only the two have, the bytes to send when the child has
ended, the bytes of the answer that accepts them, and whom to send them to. Each such record replaces the one before.

| event                                  | what the supervisor does                                           |
| SIGTERM or SIGINT                      | passes it on; once the child has ended, ends as the child did      |
| SIGHUP                                 | passes it on                                                       |
| the child has ended                    | takes away the links to its files, if it made any for readers      |
|                                        | sends the report until it is accepted, for about 6 s at most; then |
| .. by a signal, or with 1, 4 or 5      | starts it again after a pause, unless `never` was asked for        |
| .. with any other exit code            | ends with that code: a person has to act, or all is in order       |
| the supervisor ends first              | the child reads the end of the channel, and stops in order         |

A report says that the child serves nothing any more (`core/lease/process_end.py` says why that is sound). So it is sent
only after the pidfd is readable and `waitpid` has returned: then every thread of the child has ended. All coordinators
are asked at once, since any of them may lead and any of them may hang.

Usage: python -I -S supervisor.py on-failure|never COMMAND [ARGUMENT ..]
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time  # noqa: TID251 - this program has nothing of Leasehold, so no clock of it either
from collections.abc import Callable
from functools import partial

CHANNEL = "LEASEHOLD_SUPERVISOR"
"""The variable that tells the child the descriptor of its end of the channel."""
RECORD_BYTES_MAX = 64 * 1024
"""Of what the child hands over at a time."""
ADDRESSES_MAX = 64
ANSWER_BYTES_MAX = 64 * 1024
"""Read of one answer."""
REPORT_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0)
"""How long an answer is waited for until all coordinators are asked again; after the last one the lease has ended."""
RESTART_PAUSE_S = 0.2
"""Before the child is started again; twice as long each time, up to RESTART_PAUSE_MAX_S."""
RESTART_PAUSE_MAX_S = 30.0
STEADY_S = 60.0
"""A child that has run for so long is started again after the shortest pause."""
RESTARTED_CODES = frozenset({1, 4, 5})
"""Exit codes that may pass by themselves: an unexpected error, an unknown outcome, nobody reached."""
TLS_WAITS = {"SSLWantReadError": select.POLLIN, "SSLWantWriteError": select.POLLOUT}
"""What TLS waits for, by the name of its error: most supervisors never load TLS."""
ENDING = frozenset({signal.SIGTERM, signal.SIGINT})
PASSED_ON = (*ENDING, signal.SIGHUP)


class Told:
    """The signals that this process got, and a descriptor that is readable once there are new ones."""

    def __init__(self) -> None:
        self.new: list[int] = []
        self.to_end = False
        self._woken, wake = socket.socketpair()
        self._woken.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in PASSED_ON:
            signal.signal(number, self._take)

    def fileno(self) -> int:
        return self._woken.fileno()

    def _take(self, number: int, _frame: object) -> None:
        self.new.append(number)
        self.to_end = self.to_end or number in ENDING

    def taken(self) -> list[int]:
        """The signals since the last call."""
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        new, self.new = self.new, []
        return new

    def pause(self, seconds: float) -> None:
        """Sleeps, but no longer than until a signal asks this process to end."""
        until = time.monotonic() + seconds
        while not self.to_end and (left := until - time.monotonic()) > 0:
            select.select([self], [], [], left)
            self.taken()


class Child:
    """One process of the command, until it has ended."""

    def __init__(self, command: list[str]) -> None:
        self._channel, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            its.set_inheritable(True)
            environment = {**os.environ, CHANNEL: str(its.fileno())}
            self._pid = os.posix_spawn(command[0], command, environment, setsigmask=())
        self._pidfd = os.pidfd_open(self._pid)
        self._channel.setblocking(False)
        self.record = b""
        """The newest one that it handed over."""

    def run(self, told: Told) -> int:
        """Returns its wait status once every thread of it has ended."""
        waiting = select.poll()
        for one in (self._pidfd, self._channel, told):
            waiting.register(one, select.POLLIN)
        ended = False
        while not ended:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            ended = self._pidfd in ready
            if self._channel.fileno() in ready and not self._read():
                waiting.unregister(self._channel)
            for number in told.taken():
                self._pass_on(number)
        self._read()
        _, status = os.waitpid(self._pid, 0)
        os.close(self._pidfd)
        self._channel.close()
        return status

    def _read(self) -> bool:
        """Takes what it has handed over; False once it has closed the channel."""
        try:
            while record := self._channel.recv(RECORD_BYTES_MAX):
                self.record = record
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def _pass_on(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(self._pidfd, number)


class Reporting:
    """One report, to every coordinator at once and again, until one accepts it."""

    def __init__(self, record: bytes) -> None:
        addresses, acceptance, tls, links, request = record.split(b"\n", 4)
        self._links = os.fsdecode(links)
        self._tls = os.fsdecode(tls).split("\0") if tls else None
        self._addresses = addresses.decode().split()[:ADDRESSES_MAX]
        self._acceptance = bytes.fromhex(acceptance.decode())
        self._request = request
        self._waiting = select.poll()
        self._asked: dict[int, socket.socket] = {}
        self._sent: set[int] = set()
        self._answers: dict[int, bytes] = {}

    def run(self, told: Told) -> bool:
        """Whether it was accepted; gives up early when a signal asks to end."""
        try:
            self._take_away_links()
        except OSError as error:
            say(f"readers may still open files of it: {self._links} can't be taken away: {error}")
            return False
        try:
            secured = None if self._tls is None else over_tls(*self._tls)
        except (OSError, ValueError) as error:
            say(f"the certificate can't be used: {error}")
            return False
        try:
            for pause_s in REPORT_PAUSES_S:
                for address in self._addresses:
                    self._ask(address, secured)
                if self._is_accepted(time.monotonic() + pause_s):
                    return True
                if told.to_end:
                    break
            return False
        finally:
            for one in self._asked.values():
                one.close()

    def _take_away_links(self) -> None:
        # Under a sub-lease of the child's lease, which ends with this report: no file may be opened after it.
        if self._links:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self._links, f"{self._links}.{time.monotonic_ns()}")  # noqa: PTH105 - pathlib takes 3 MiB

    def _ask(self, address: str, secured: "Secured | None") -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        one = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        one.setblocking(False)
        if secured is not None:
            one = secured(one)
        try:
            one.connect_ex((host, int(port)))
        except (OSError, ValueError, OverflowError):  # a name that can't be looked up, or no address at all
            one.close()
            return
        self._asked[one.fileno()] = one
        self._waiting.register(one, select.POLLOUT)

    def _is_accepted(self, until: float) -> bool:
        while (left := until - time.monotonic()) > 0:
            for descriptor, _ in self._waiting.poll(left * 1000):
                try:
                    if descriptor not in self._sent:
                        self._send(descriptor)
                    elif self._hears(descriptor):
                        return True
                except OSError as error:
                    event_needed = TLS_WAITS.get(type(error).__name__)
                    if event_needed is None:
                        self._drop(descriptor)
                    else:
                        self._waiting.modify(descriptor, event_needed)
        return False

    def _send(self, descriptor: int) -> None:
        one = self._asked[descriptor]
        shake_hands = getattr(one, "do_handshake", None)
        if shake_hands is not None:
            shake_hands()
        one.sendall(self._request)
        self._sent.add(descriptor)
        self._waiting.modify(descriptor, select.POLLIN)

    def _hears(self, descriptor: int) -> bool:
        some = self._asked[descriptor].recv(4096)
        answer = self._answers[descriptor] = self._answers.get(descriptor, b"") + some
        if self._acceptance in answer:
            return True
        if not some or len(answer) > ANSWER_BYTES_MAX:
            self._drop(descriptor)
        return False

    def _drop(self, descriptor: int) -> None:
        self._waiting.unregister(descriptor)
        self._answers.pop(descriptor, None)
        self._sent.discard(descriptor)
        self._asked.pop(descriptor).close()


Secured = Callable[[socket.socket], socket.socket]


def over_tls(name: str, roots: str, own: str) -> Secured:
    """Makes a new socket one of TLS, to a server whose certificate has this name. Raises `OSError`, `ValueError`."""
    import ssl  # noqa: PLC0415 - 3 MiB, which only this needs

    context = ssl.create_default_context(cafile=roots)
    context.load_cert_chain(own)
    context.set_alpn_protocols(["h2"])
    return partial(context.wrap_socket, server_hostname=name, do_handshake_on_connect=False)


def supervise(restart: str, command: list[str]) -> int:
    """Runs the command until it has ended for good; returns the wait status of its last process."""
    told, pause_s = Told(), RESTART_PAUSE_S
    while True:
        began = time.monotonic()
        child = Child(command)
        status = child.run(told)
        if child.record and not Reporting(child.record).run(told) and not told.to_end:
            say("no coordinator has accepted that the process has ended: what waits for it waits for its lease")
        if told.to_end or restart == "never" or not may_restart(status):
            return status
        if time.monotonic() - began >= STEADY_S:
            pause_s = RESTART_PAUSE_S
        say(f"the process has ended {how(status)}; it is started again in {pause_s:.1f} s")
        told.pause(pause_s)
        if told.to_end:
            return status
        pause_s = min(2 * pause_s, RESTART_PAUSE_MAX_S)


def may_restart(status: int) -> bool:
    return os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in RESTARTED_CODES


def how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"by signal {os.WTERMSIG(status)}"
    return f"with exit code {os.WEXITSTATUS(status)}"


def say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it
        sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')},000 supervisor: {line}\n")
        sys.stderr.flush()


def end_as(status: int) -> None:
    """Ends this process as its child ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    end_as(supervise(sys.argv[1], sys.argv[2:]))
