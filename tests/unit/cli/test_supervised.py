"""Which commands get a supervisor, and the child's end of the channel to it."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from leasehold.cli import supervised, supervisor
from leasehold.cli.serve_node import Ending
from leasehold.cli.supervised import SupervisorChannel, become_supervisor
from leasehold.cli.supervisor import CHANNEL
from leasehold.core.words.messages import ReportProcessEnd
from leasehold.ids import ClusterId, Incarnation, NodeId
from leasehold.wire.prepared_call import prepared_call

BECOMES = [
    (["coordinator"], "on-failure"),
    (["coordinator", "--restart", "never"], "never"),
    (["node", "start", "--dir", "x"], "on-failure"),
    (["node", "start", "--restart=never", "--dir", "x"], "never"),
    (["node", "start", "--restart=never", "--restart", "on-failure"], "on-failure"),
]
STAYS = [
    [],
    ["node"],
    ["node", "reset"],
    ["up"],
    ["sql", "coordinator"],
    ["coordinator", "--help"],
    ["node", "start", "-h"],
    ["node", "start", "--standalone"],
    ["node", "start", "--restart", "sometimes"],
    ["node", "start", "--restart"],
]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    done: list[list[str]] = []
    monkeypatch.delenv(CHANNEL, raising=False)
    monkeypatch.setattr(os, "execv", lambda _path, words: done.append(words))
    return done


@pytest.mark.parametrize(("words", "restart"), BECOMES)
def test_nodes_and_coordinators_become_their_supervisor(
    words: list[str], restart: str, executed: list[list[str]]
) -> None:
    become_supervisor(words)
    (command,) = executed
    assert command[1:5] == ["-I", "-S", supervisor.__file__, restart]


@pytest.mark.parametrize("words", STAYS)
def test_other_commands_and_mistaken_ones_do_not(words: list[str], executed: list[list[str]]) -> None:
    become_supervisor(words)
    assert executed == []


def test_the_child_of_a_supervisor_does_not_become_one(
    executed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHANNEL, "3")
    become_supervisor(["coordinator"])
    assert executed == []


@pytest.mark.parametrize("text", ["", "x", "-1", "1" * 10, "99999", "0x3"])
def test_a_variable_that_names_no_channel_is_taken_for_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHANNEL, text)
    assert SupervisorChannel.of_this_process() is None
    assert CHANNEL not in os.environ


def test_a_file_is_no_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as file:  # noqa: PTH123
        monkeypatch.setenv(CHANNEL, str(file.fileno()))
        assert SupervisorChannel.of_this_process() is None
        os.fstat(file.fileno())


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, SupervisorChannel]]:
    """The supervisor's end, and the child's."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    its.set_inheritable(True)
    monkeypatch.setenv(CHANNEL, str(its.detach()))
    channel = SupervisorChannel.of_this_process()
    assert channel is not None
    with ours:
        yield ours, channel
    os.close(channel.fileno())


def test_what_this_process_starts_inherits_no_channel(ends: tuple[socket.socket, SupervisorChannel]) -> None:
    assert not os.get_inheritable(ends[1].fileno())
    assert CHANNEL not in os.environ


def test_what_is_handed_over_is_one_record(ends: tuple[socket.socket, SupervisorChannel]) -> None:
    ends[1].hand_over(("a:1", "b:2"), b"\x00yes", b"the\nrequest")
    assert ends[0].recv(supervisor.RECORD_BYTES_MAX) == b"a:1 b:2\n00796573\n\n\nthe\nrequest"
    ends[1].hand_over(("a:1",), b"yes", b"it", ("name", "/ca", "/own"), "/links")
    assert ends[0].recv(supervisor.RECORD_BYTES_MAX) == b"a:1\n796573\nname\0/ca\0/own\n/links\nit"


def test_a_supervisor_that_does_not_read_holds_nobody_up(ends: tuple[socket.socket, SupervisorChannel]) -> None:
    for _ in range(10_000):
        ends[1].hand_over(("a:1",), b"yes", b"request")


def test_the_end_of_the_supervisor_stops_this_process_in_order(
    ends: tuple[socket.socket, SupervisorChannel], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(supervised.os, "kill", lambda *words: sent.append(words))
    ends[1].on_readable()
    assert sent == [], "it was for nothing"
    ends[0].close()
    ends[1].on_readable()
    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_a_supervisor_is_told_that_the_process_ends_for_an_error_of_the_disk() -> None:
    report = ReportProcessEnd(cluster_id=ClusterId("c"), node=NodeId(1), incarnation=Incarnation(2), proof=b"p" * 32)
    supervisor_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ending = Ending(SupervisorChannel(child_end.detach()), Path("links"))
    with supervisor_end:
        ending.disk_fails()
        ending.hand_over(("c1:7000",), report)
        ending.disk_fails()
        records = [supervisor_end.recv(supervisor.RECORD_BYTES_MAX) for _ in range(2)]
    failing = msgspec.structs.replace(report, disk_failing=True)
    assert [one.split(b"\n", 4)[4] for one in records] == [prepared_call(report), prepared_call(failing)]
    Ending(None, Path("links")).disk_fails()
