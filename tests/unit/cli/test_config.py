"""The configuration of a process: which of file, variable and flag wins, and what each refuses."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from leasehold.cli import main
from leasehold.cli.config import (
    COORDINATOR_KEYS,
    META_KEYS,
    NODE_KEYS,
    ConfigKey,
    CoordinatorConfig,
    ProcessConfig,
    coordinator_config,
    keys_of,
    node_config,
    read_config,
)
from leasehold.cli.options import CONFIG_VARIABLE
from leasehold.core.ddl.settings import SETTINGS
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings, ExitCode
from leasehold.limits.processes import CONFIG_ADDRESSES_MAX, CONFIG_BYTES_MAX
from leasehold.metastorage.location import EXAMPLE, StoreLocation

BASE = Path("/etc/leasehold")
DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def read(text: str, role: str = "node") -> dict[str, object]:
    return dict(read_config("node" if role == "node" else "coordinator", text.encode(), where="f.toml", base=BASE))


def refused(text: str, *words: str, role: str = "node") -> None:
    with pytest.raises(BadSettings) as caught:
        read(text, role)
    error = caught.value
    assert (error.code, error.exit_code) == ("BAD_CONFIG", ExitCode.USAGE)
    assert error.hint
    for word in ("f.toml", *words):
        assert word in f"{error.text} {error.hint}", word


# ---------------------------------------------------------------- the file


def test_a_file_says_all_that_flags_can() -> None:
    text = """
dir = "data"
name = "n"
listen = "127.0.0.1:7400"
advertise = "db1.example:7400"
rack = "7"
coordinators = ["127.0.0.1:7000", "[::1]:7001"]
seeds = ["127.0.0.1:7900"]
cluster_key = "/etc/key"
gossip = "127.0.0.1:7900"
tls = "certificates/n"
"""
    assert read(text) == {
        "dir": BASE / "data",
        "name": "n",
        "rack": "7",
        "listen": "127.0.0.1:7400",
        "advertise": "db1.example:7400",
        "coordinators": ("127.0.0.1:7000", "[::1]:7001"),
        "seeds": ("127.0.0.1:7900",),
        "cluster_key": Path("/etc/key"),
        "gossip": "127.0.0.1:7900",
        "tls": BASE / "certificates/n",
    }
    assert set(read(text)) == {key.name for key in NODE_KEYS}


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    refused("listn = '127.0.0.1:1'", "listn", "did you mean listen?")
    refused("Coordinator = []", "did you mean coordinators?")
    refused("colour = 'blue'", "colour", "the keys are dir, name")
    refused("name = 'x'", "key of nodes", role="coordinator")


@pytest.mark.parametrize("name", [one.name for one in SETTINGS])
def test_a_setting_of_the_cluster_is_refused_and_says_where_it_belongs(name: str) -> None:
    for role in ("node", "coordinator"):
        refused(f"{name} = 5", name, f"ALTER CLUSTER SET {name}", role=role)


def test_no_name_is_both_a_key_and_a_setting_of_the_cluster() -> None:
    keys = {key.name for key in (*NODE_KEYS, *COORDINATOR_KEYS)}
    settings = {name for one in SETTINGS for name in (one.name, one.field)}
    assert not keys & settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dir = 5", ["dir", "'5' is not a path"]),
        ("dir = ''", ["dir", "not a path"]),
        ('dir = "a\\u0000b"', ["dir", "not a path"]),
        ("name = ['a']", ["name", "not a name"]),
        ("listen = 7400", ["listen", "not an address"]),
        ("listen = 'here'", ["listen", "'here' is not an address"]),
        ("listen = '127.0.0.1:70000'", ["listen", "a valid port", "65535"]),
        ("advertise = 'db1'", ["advertise", "not an address"]),
        ("advertise = '0.0.0.0:7400'", ["advertise", "no process can be reached at 0.0.0.0:7400"]),
        ("advertise = '[::]:0'", ["advertise", "no process can be reached"]),
        ("advertise = '[0:0::0]:0'", ["advertise", "no process can be reached"]),
        ("coordinators = '127.0.0.1:1'", ["coordinators", "not a list of addresses"]),
        ("coordinators = [7000]", ["coordinators", "not an address"]),
        ("coordinators = ['127.0.0.1:0']", ["coordinators", "a valid port"]),
        (f"seeds = {['127.0.0.1:1'] * (CONFIG_ADDRESSES_MAX + 1)}", ["seeds", f"at most {CONFIG_ADDRESSES_MAX}"]),
        ("[node]\ndir = 'x'", ["there is no key 'node'"]),
        ("listen = ", ["not valid TOML"]),
        ("a = " + "[" * 5_000, ["not valid TOML"]),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, words: list[str]) -> None:
    refused(text, *words)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BadSettings, match="not UTF-8 text"):
        read_config("node", b"dir = '\xff'", where="f.toml", base=BASE)


def test_an_error_repeats_no_more_than_a_little_of_a_long_value() -> None:
    with pytest.raises(BadSettings) as caught:
        read(f"listen = '{'x' * 60_000}'")
    assert len(caught.value.text) < 300


def test_a_file_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe.toml", tmp_path / "large.toml"
    os.mkfifo(pipe)
    large.write_text("#" * (CONFIG_BYTES_MAX + 1))
    for path, why in {
        tmp_path: "it is not a file",
        tmp_path / "nothing.toml": "it can't be read: No such file",
        pipe: "it is not a file",
        large: f"may have at most {CONFIG_BYTES_MAX}",
    }.items():
        for reading in (node_config, coordinator_config):
            with pytest.raises(BadSettings) as caught:
                reading(path, {})
            assert (caught.value.code, caught.value.exit_code) == ("BAD_CONFIG", ExitCode.USAGE)
            assert str(path) in caught.value.text
            assert why in caught.value.text


# ---------------------------------------------------------------- which one wins


def test_what_is_given_wins_over_the_file_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("dir = 'd'\nlisten = '127.0.0.1:1'\ncoordinators = ['127.0.0.1:2']\ncluster_key = 'key'\n")
    told = node_config(file, {"listen": "127.0.0.1:9", "coordinators": [], "name": None})
    assert (told.directory, told.name) == (tmp_path / "d", "d")
    assert (told.listen, told.coordinators) == ("127.0.0.1:9", ("127.0.0.1:2",))
    assert told.cluster_key == tmp_path / "key"
    given = node_config(file, {"dir": Path("here"), "coordinators": ["127.0.0.1:3"]})
    assert given.directory == Path("here"), "relative to where the command runs, not to the file"
    assert given.coordinators == ("127.0.0.1:3",), "a list is replaced as a whole"


def test_what_is_given_is_held_to_the_same_rules() -> None:
    for bad in (
        {"listen": "x"},
        {"advertise": "x:99999"},
        {"coordinators": ["x:0"]},
        {"name": "a/b"},
        {"name": "-a"},
        {"rack": "a b"},
    ):
        with pytest.raises(BadSettings):
            node_config(None, {"dir": Path("d"), **bad})


def test_a_process_needs_a_directory() -> None:
    for make in (node_config, coordinator_config):
        with pytest.raises(BadSettings, match="needs a directory"):
            make(None, {})


def test_a_directory_without_a_name_gives_a_node_none() -> None:
    with pytest.raises(BadSettings, match="not a node name"):
        node_config(None, {"dir": Path("/")})


# ---------------------------------------------------------------- addresses


def test_the_advertised_address_takes_the_port_it_really_listens_on() -> None:
    def told(advertise: str | None) -> str:
        return ProcessConfig(directory=Path("d"), listen="", advertise=advertise).advertised("127.0.0.1:4711")

    assert told(None) == "127.0.0.1:4711"
    assert told("db1.example:0") == "db1.example:4711"
    assert told("[fe80::1]:0") == "[fe80::1]:4711"
    assert told("db1.example:7400") == "db1.example:7400"


@pytest.mark.parametrize("listen", ["0.0.0.0:7400", "[::]:7400", "[0:0::]:7400", "[::ffff:0.0.0.0]:7400"])
def test_who_listens_everywhere_says_where_it_is_reached(listen: str) -> None:
    for make in (node_config, coordinator_config):
        told = {"dir": Path("d"), "tls": Path("tls"), "listen": listen}
        with pytest.raises(BadSettings, match="nobody knows which address") as refused:
            make(None, told)
        assert refused.value.code == "BAD_CONFIG"
        make(None, {**told, "advertise": "db1.example:0"})


def test_gossip_wants_a_key() -> None:
    for make in (node_config, coordinator_config):
        for told in ({"seeds": ["127.0.0.1:1"]}, {"gossip": "127.0.0.1:0"}):
            with pytest.raises(BadSettings, match="cluster_key") as refused:
                make(None, {"dir": Path("d"), **told})
            assert refused.value.code == "BAD_CONFIG"
            assert "`leasehold cluster-key FILE`" in refused.value.hint
            make(None, {"dir": Path("d"), "cluster_key": Path("key"), **told})


def test_the_default_ports_leave_room_for_tls_and_differ_by_role() -> None:
    assert coordinator_config(None, {"dir": Path("d")}).listen == "127.0.0.1:7400"
    assert node_config(None, {"dir": Path("d")}).listen == "127.0.0.1:7410"


@pytest.mark.parametrize(
    ("given", "bound", "service", "said"),
    [
        ({}, "127.0.0.1:7410", "127.0.0.1:7410", "127.0.0.1:7410"),
        ({"listen": "10.0.0.2:0"}, "10.0.0.2:4711", "10.0.0.2:4712", "10.0.0.2:4711"),
        (
            {"listen": "0.0.0.0:7410", "advertise": "db1.example:80"},
            "0.0.0.0:7410",
            "db1.example:80",
            "db1.example:7410",
        ),
        (
            {"listen": "[::]:7410", "advertise": "[2001:db8::1]:0"},
            "[::]:7410",
            "[2001:db8::1]:7410",
            "[2001:db8::1]:7410",
        ),
        ({"gossip": "10.1.0.2:7500", "listen": "10.0.0.2:1"}, "10.1.0.2:7500", "10.0.0.2:1", "10.1.0.2:7500"),
        ({"gossip": "[::]:0", "listen": "10.0.0.2:1"}, "[::]:4711", "10.0.0.2:1", "10.0.0.2:4711"),
    ],
)
def test_gossip_is_where_the_process_serves_unless_it_is_said(
    given: dict[str, str], bound: str, service: str, said: str
) -> None:
    config = node_config(None, {"dir": Path("d"), "cluster_key": Path("key"), **given})
    assert config.gossips_at == given.get("gossip", given.get("listen", "127.0.0.1:7410"))
    assert config.gossip_advertised(bound, service) == said


ROUTED = {"listen": "10.0.0.1:7400", "tls": Path("tls")}


@pytest.mark.parametrize("make", [node_config, coordinator_config])
@pytest.mark.parametrize(
    ("given", "seed", "why"),
    [
        ({}, "10.0.0.1:7900", "reaches only this machine"),
        ({}, "[::1]:7900", "can't be asked from 127.0.0.1:7"),
        ({"gossip": "[::1]:0"}, "localhost:7900", r"can't be asked from \[::1\]:0"),
        (ROUTED, "[2001:db8::1]:7900", "can't be asked from 10.0.0.1:7400"),
        ({"gossip": "example.org:0"}, "127.0.0.1:7900", "may stand for several"),
        ({"gossip": "10.0.0.1:0"}, "10.0.0.2:7900", "which only this machine reaches"),
        ({"gossip": "10.0.0.1:0", **ROUTED, "advertise": "localhost:1"}, "10.0.0.2:7900", "which only this machine"),
    ],
)
def test_gossip_that_nobody_could_hear_is_refused(
    make: Callable[..., ProcessConfig], given: dict[str, Any], seed: str, why: str
) -> None:
    with pytest.raises(BadSettings, match=why) as caught:
        make(None, {"dir": Path("d"), "cluster_key": Path("key"), "seeds": [seed], **given})
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        ({"gossip": "[::1]:0"}, ("[::1]:7900",)),
        ({}, ("127.0.0.1:7900", "localhost:7901", "127.0.0.2:7902", "seed.example:7903")),
        (ROUTED, ("10.0.0.2:7400", "seed.example:7400")),
        ({**ROUTED, "listen": "[::]:7400", "advertise": "db.example:0"}, ("10.0.0.2:7400", "[2001:db8::1]:7400")),
    ],
)
def test_a_seed_that_may_be_reached_is_taken(given: dict[str, Any], seeds: tuple[str, ...]) -> None:
    told = {"dir": Path("d"), "cluster_key": Path("key"), **given, "seeds": list(seeds)}
    assert node_config(None, told).seeds == seeds


# ---------------------------------------------------------------- what is told of it


@pytest.mark.parametrize(("role", "words"), [("node", ["node", "start"]), ("coordinator", ["coordinator"])])
def test_every_key_has_its_flag_and_its_variable(role: str, words: list[str]) -> None:
    command = typer.main.get_command(main.app)
    for word in words:
        assert isinstance(command, typer.core.TyperGroup)
        command = command.commands[word]
    found = {(one.opts[0], one.envvar) for one in command.params if one.envvar is not None}
    keys = keys_of("node" if role == "node" else "coordinator")
    assert found == {(key.flag, key.variable) for key in keys} | {("--config", CONFIG_VARIABLE)}


def test_every_key_is_told_in_the_document() -> None:
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    told = [tuple(cell.strip() for cell in line.strip("| ").split(" | "))[:4] for line in lines]
    expected = [(f"`{key.name}`", who, f"`{key.flag}`", f"`{key.variable}`") for key, who in documented()]
    assert told == expected


def documented() -> list[tuple[ConfigKey, str]]:
    """Each key with whose it is; those of one name that differ have a row each."""
    of_coordinators = {key.name: key for key in COORDINATOR_KEYS}
    rows: list[tuple[ConfigKey, str]] = []
    for key in NODE_KEYS:
        other = of_coordinators.get(key.name)
        rows.append((key, "both" if other == key else "node"))
        if other is not None and other != key:
            rows.append((other, "coordinator"))
    return rows + [(key, "coordinator") for key in META_KEYS]


# ---------------------------------------------------------------- the store of a shared meta storage


def coordinator(**given: object) -> CoordinatorConfig:
    return coordinator_config(None, {"dir": Path("c"), **given})


def test_a_store_is_read_from_its_place() -> None:
    found = coordinator(meta="etcd://10.0.0.1:2379,[::1]:2379/my-cluster", meta_quota="4GiB")
    assert found.meta == StoreLocation("etcd", ("10.0.0.1:2379", "[::1]:2379"), "my-cluster")
    assert coordinator(meta="zookeeper://h:2181/etcd").meta == StoreLocation("zookeeper", ("h:2181",), "etcd")
    assert found.meta_quota == 4 * 1024**3
    assert coordinator().meta is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"meta": "127.0.0.1:2379/x"}, ["etcd://"]),
        ({"meta": "http://127.0.0.1:2379/x"}, ["does not begin with etcd:// or zookeeper://"]),
        ({"meta": "etcd://127.0.0.1:2379"}, ["needs a name"]),
        ({"meta": "etcd://127.0.0.1:2379/"}, ["needs a name"]),
        ({"meta": "etcd://127.0.0.1:2379/a/b"}, ["needs a name"]),
        ({"meta": "etcd://127.0.0.1/x"}, ["'127.0.0.1' is not host:port"]),
        ({"meta": "etcd://127.0.0.1:0/x"}, ["not host:port"]),
        ({"meta": "etcd://user:word@127.0.0.1:1/x"}, ["meta_user"]),
        ({"meta": "etcd:///x"}, ["not host:port"]),
        ({"meta": "zookeeper://h:2181/zookeeper"}, ["keeps this name for itself"]),
        ({"meta": "etcd://h:1,h:1/x"}, ["names an address twice"]),
        ({"meta": "etcd://" + ",".join(f"h{n}:1" for n in range(20)) + "/x"}, ["20 addresses"]),
        ({"meta_ca": Path("ca.pem")}, ["meta_ca", "no store is given", "--meta etcd://"]),
        ({"meta": EXAMPLE, "meta_cert": Path("c.pem")}, ["meta_cert", "needs meta_key"]),
        ({"meta": EXAMPLE, "meta_cert": Path("c"), "meta_key": Path("k")}, ["meta_cert", "needs meta_ca"]),
        ({"meta": EXAMPLE, "meta_user": "u"}, ["meta_user", "needs meta_password_file"]),
        ({"meta": EXAMPLE, "meta_quota": "much"}, ["not a size"]),
        ({"meta": EXAMPLE, "meta_quota": "1"}, ["out of range"]),
    ],
)
def test_a_store_that_can_not_be_reached_so_is_refused(given: dict[str, object], words: list[str]) -> None:
    with pytest.raises(BadSettings) as caught:
        coordinator(**given)
    assert caught.value.code == ErrorCode.BAD_CONFIG
    for word in words:
        assert word in f"{caught.value.text} {caught.value.hint}"


def test_no_password_is_repeated_from_a_place() -> None:
    with pytest.raises(BadSettings) as caught:
        coordinator(meta="etcd://root:secret@127.0.0.1:2379/x")
    assert "secret" not in f"{caught.value.text} {caught.value.hint}"
