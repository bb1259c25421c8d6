"""The network that the other tests trust: a cut loses what it says, one way, and nothing is left behind."""

import os
import socket
import subprocess

import pytest

from tests.netns import hosts as network
from tests.netns.hosts import PREFIX, Hosts, namespaces


def test_every_host_reaches_every_other_one_by_its_own_address(two: Hosts) -> None:
    with two["one"].socket(socket.SOCK_STREAM) as server, two["other"].socket(socket.SOCK_STREAM) as client:
        server.bind((two["one"].address, 0))
        server.listen()
        client.connect(server.getsockname())
        accepted, address = server.accept()
        accepted.close()
        assert address[0] == two["other"].address


def test_a_cut_one_way_leaves_the_other_way(two: Hosts) -> None:
    assert two.reachable("one", "other")
    two.cut("one", "other")
    assert not two.reachable("one", "other")
    assert two.reachable("other", "one")
    two.heal()
    assert two.reachable("one", "other")


def test_one_cut_is_mended_and_the_other_one_stays(two: Hosts) -> None:
    two.cut_both_ways("one", "other")
    two.mend("one", "other")
    assert two.reachable("one", "other")
    assert not two.reachable("other", "one")


def test_a_cut_is_silent(two: Hosts) -> None:
    """Who connects across it is not refused, which would be a proof of something: it just has no answer."""
    with two["one"].socket(socket.SOCK_STREAM) as server, two["other"].socket(socket.SOCK_STREAM) as client:
        server.bind((two["one"].address, 0))
        server.listen()
        two.cut("one", "other")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.connect(server.getsockname())


def test_a_killed_run_is_cleaned_up_by_the_next_one(two: Hosts) -> None:
    """Its processes too; a run that lives is left alone."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = f"{PREFIX}-{dead.pid}-1-node-1"
    subprocess.run(["ip", "netns", "add", left], check=True)
    process = subprocess.Popen(["ip", "netns", "exec", left, "sleep", "600"])
    mine = [name for name in namespaces() if name.startswith(f"{PREFIX}-{os.getpid()}-")]
    assert mine
    while str(process.pid) not in subprocess.check_output(["ip", "netns", "pids", left], text=True).split():
        assert process.poll() is None
    network.remove_leftovers()
    assert process.wait(10) == -9
    assert left not in namespaces()
    assert set(mine) <= set(namespaces())
