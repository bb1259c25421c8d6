"""The supervisor with children of a few lines, and coordinators that refuse, hang, answer wrongly or accept."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from leasehold.cli import supervisor

ACCEPTANCE, REQUEST = b"\0\1accepted", b"the\nreport"
QUICK = """
import sys
from leasehold.cli import supervisor
supervisor.RESTART_PAUSE_S = 0.01
supervisor.REPORT_PAUSES_S = (0.02, 0.02, 0.02)
supervisor.end_as(supervisor.supervise(sys.argv[1], sys.argv[2:]))
"""
"""The same supervisor, with pauses that a test need not wait for."""
HANDS_OVER = f"""
import os, signal, socket, sys
channel = socket.socket(fileno=int(os.environ[{supervisor.CHANNEL!r}]))
def hand_over(*addresses):
    words = " ".join(addresses), {ACCEPTANCE.hex()!r}, "", os.environ.get("LINKS", "")
    channel.send("\\n".join(words).encode() + b"\\n" + {REQUEST!r})
"""
ANSWERS_S = 20
"""In which a test fails, rather than waits."""


def started(restart: str, script: str, *arguments: str, quick: bool = True) -> "subprocess.Popen[str]":
    program = ["-c", QUICK] if quick else ["-I", "-S", supervisor.__file__]
    command = [sys.executable, "-I", "-S", "-c", script, *arguments]
    return subprocess.Popen(
        [sys.executable, *program, restart, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ran(restart: str, script: str, *arguments: str, quick: bool = True) -> tuple[int, str, str]:
    """The exit code, and what it said on stdout and stderr."""
    with started(restart, script, *arguments, quick=quick) as process:
        out, err = process.communicate(timeout=ANSWERS_S)
    return process.returncode, out, err


class Coordinator:
    """A socket of one kind, on a thread; a context manager. It keeps what came, connection by connection."""

    def __init__(self, answer: Callable[[int], bytes | None]) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.came: list[bytes] = []
        self._some = threading.Condition()
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in [self._listening, *self._open]:
            one.close()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(one)
            came = one.recv(4096)
            with self._some:
                self.came.append(came)
                self._some.notify_all()
            answer = self._answer(len(self.came))
            with contextlib.suppress(OSError):
                if answer is None:
                    one.shutdown(socket.SHUT_RDWR)
                else:
                    one.sendall(answer)

    def wait_for(self, count: int) -> None:
        with self._some:
            assert self._some.wait_for(lambda: len(self.came) >= count, ANSWERS_S)


@pytest.fixture
def refusing() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("code", [0, 2, 3, 6, 130])
def test_an_exit_code_that_calls_for_a_person_or_for_nothing_is_passed_through(code: int) -> None:
    assert ran("on-failure", f"import sys; print('ran'); sys.exit({code})") == (code, "ran\n", "")


@pytest.mark.parametrize("code", [1, 4, 5])
def test_never_passes_every_exit_code_through(code: int) -> None:
    assert ran("never", f"import sys; print('ran'); sys.exit({code})") == (code, "ran\n", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_it_ends_by_the_signal_that_ended_the_child(number: signal.Signals) -> None:
    code, _, _ = ran("never", f"import os; os.kill(os.getpid(), {int(number)})")
    assert code == -number


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "sys.exit(1)", "sys.exit(4)", "sys.exit(5)"])
def test_a_child_that_was_killed_or_fails_is_started_again(end: str, tmp_path: Path) -> None:
    script = f"import os, sys; print(1, file=open(sys.argv[1], 'a'))\nif len(open(sys.argv[1]).readlines()) < 3: {end}"
    code, _, said = ran("on-failure", script, str(tmp_path / "starts"))
    assert code == 0
    assert (tmp_path / "starts").read_text().count("1") == 3
    assert [line.partition(" supervisor: ")[2] for line in said.splitlines()] == [
        f"the process has ended {how}; it is started again in {pause} s"
        for how, pause in zip(2 * [_how(end)], ("0.0", "0.0"), strict=True)
    ]


def _how(end: str) -> str:
    return "by signal 9" if "kill" in end else f"with exit code {end.partition('(')[2][0]}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_passes_a_signal_on_and_ends_with_the_child(number: signal.Signals) -> None:
    script = f"import signal, sys; signal.signal({int(number)}, lambda *_: sys.exit(5)); print('up', flush=True)\n"
    with started("on-failure", script + "while True: signal.pause()") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.wait(ANSWERS_S) == 5, "nor does it start again what it was told to end"


def test_a_signal_ends_it_also_while_it_waits_to_start_the_child_again() -> None:
    with started("on-failure", "import sys; sys.exit(1)", quick=False) as process:
        assert process.stderr is not None
        assert "started again" in process.stderr.readline()
        process.terminate()
        process.wait(ANSWERS_S)


@pytest.mark.parametrize("answers", [1, 3])
def test_the_coordinator_that_accepts_is_found_among_others_that_do_not(answers: int, refusing: str) -> None:
    """One refuses, one hangs, one closes, one does not lead, one says what nobody can read."""
    with contextlib.ExitStack() as stack:

        def kind(answer: Callable[[int], bytes | None]) -> str:
            return stack.enter_context(Coordinator(answer)).address

        leader = stack.enter_context(Coordinator(lambda count: b"NOT_LEADER" if count < answers else b"." + ACCEPTANCE))
        others = [
            kind(lambda _: b""),
            kind(lambda _: None),
            kind(lambda _: b"NOT_LEADER"),
            kind(lambda _: bytes(2 * supervisor.ANSWER_BYTES_MAX)),
        ]
        addresses = (refusing, *others, "nowhere", "127.0.0.1:99999999", leader.address)
        script = HANDS_OVER + "hand_over(*sys.argv[1:]); os.kill(os.getpid(), 9)"
        code, _, said = ran("never", script, *addresses)
    assert (code, said) == (-signal.SIGKILL, "")
    assert leader.came == answers * [REQUEST], "asked again until it accepts, and then no more"


def test_it_says_so_if_nobody_accepts_and_goes_on(refusing: str) -> None:
    code, _, said = ran("never", HANDS_OVER + "hand_over(sys.argv[1]); sys.exit(3)", refusing)
    assert code == 3
    assert "no coordinator has accepted" in said


def test_the_newest_record_counts() -> None:
    with Coordinator(lambda _: ACCEPTANCE) as old, Coordinator(lambda _: ACCEPTANCE) as new:
        ran("never", HANDS_OVER + "hand_over(sys.argv[1]); hand_over(sys.argv[2])", old.address, new.address)
    assert (old.came, new.came) == ([], [REQUEST])


def test_a_child_that_handed_nothing_over_is_reported_to_nobody() -> None:
    assert ran("never", HANDS_OVER) == (0, "", "")


def test_links_to_files_of_the_child_are_gone_before_its_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "local"
    (links / "open").mkdir(parents=True)
    seen: list[bool] = []

    def answer(_: int) -> bytes:
        seen.append(links.exists())
        return ACCEPTANCE

    monkeypatch.setenv("LINKS", str(links))
    with Coordinator(answer) as leader:
        assert ran("never", HANDS_OVER + "hand_over(sys.argv[1])", leader.address) == (0, "", "")
        assert seen == [False]
        assert len(list(tmp_path.glob("local.*/open"))) == 1
        assert ran("never", HANDS_OVER + "hand_over(sys.argv[1])", leader.address) == (0, "", ""), "there are none"
    assert len(leader.came) == 2


def test_no_end_is_reported_while_files_of_the_child_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LINKS", str(tmp_path / "file" / "local"))
    with Coordinator(lambda _: ACCEPTANCE) as leader:
        _, _, said = ran("never", HANDS_OVER + "hand_over(sys.argv[1])", leader.address)
    assert "can't be taken away" in said
    assert leader.came == []


STILL_THERE = """
import ctypes, threading
def last():
    with socket.create_connection(("127.0.0.1", int(sys.argv[1].rpartition(":")[2]))) as leader:
        leader.sendall(b"still there")
        threading.Event().wait()
hand_over(sys.argv[1])
channel.close()
threading.Thread(target=last).start()
"""


@pytest.mark.parametrize("first_thread", ["threading.Event().wait()", "ctypes.CDLL(None).pthread_exit(None)"])
def test_nothing_is_reported_while_a_thread_of_the_child_runs(first_thread: str) -> None:
    """Neither a channel that is closed nor a first thread that has ended is the end of the process."""
    script = HANDS_OVER + "import ctypes, threading, os\nprint(os.getpid(), flush=True)\n" + STILL_THERE + first_thread
    with Coordinator(lambda _: ACCEPTANCE) as leader, started("never", script, leader.address) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        leader.wait_for(1)
        os.kill(child, signal.SIGKILL)
        assert process.wait(ANSWERS_S) == -signal.SIGKILL
    assert leader.came == [b"still there", REQUEST]


def test_it_takes_less_than_15_mib() -> None:
    with started("never", "import signal; print('up', flush=True); signal.pause()", quick=False) as process:
        assert process.stdout is not None
        process.stdout.readline()
        status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        process.terminate()
    resident = next(line for line in status if line.startswith("VmRSS:"))
    assert int(resident.split()[1]) < 15 * 1024, resident
