"""The configuration of one process: its TOML file, then LEASEHOLD_* variables, then flags, each over the one before.

What all processes must agree on is a setting of the cluster: it is in the meta storage and changes with ALTER CLUSTER
SET. No name is both a key of a process and a setting of the cluster.
"""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from leasehold.client.trust import TLS_VARIABLE
from leasehold.core.ddl.settings import SETTINGS
from leasehold.core.words.addresses import LOCALHOST, host_of, is_everywhere, is_loopback, numeric
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.ids import NODE_ADDRESS, NODE_NAME
from leasehold.limits.log import STORE_QUOTA_BYTES, STORE_QUOTA_MAX_BYTES, STORE_QUOTA_MIN_BYTES
from leasehold.limits.processes import CONFIG_ADDRESSES_MAX, CONFIG_BYTES_MAX, CONFIG_SHOWN_MAX
from leasehold.metastorage.location import EXAMPLE, StoreLocation, parse_location
from leasehold.private_files import read_any
from leasehold.wire.addresses import EVERY_IPV6, anywhere

ProcessRole: TypeAlias = Literal["node", "coordinator"]
Value: TypeAlias = str | int | Path | tuple[str, ...] | StoreLocation
C = TypeVar("C", bound="ProcessConfig")

DEFAULT_LISTEN: Final[Mapping[ProcessRole, str]] = {"coordinator": f"{LOCALHOST}:7400", "node": f"{LOCALHOST}:7410"}
"""With TLS the next port is used as well, and with a cluster key the same port for gossip, over UDP."""
PORT_MAX: Final = 65_535
SIZE: Final = re.compile(r"([0-9]{1,15})(|MiB|GiB)")
UNITS: Final = {"": 1, "MiB": 1024**2, "GiB": 1024**3}


class ConfigKey(NamedTuple):
    """One key of the file, with its flag and its variable. docs/configuration.md has its meaning and its default."""

    name: str
    kind: Literal["path", "name", "address", "addresses", "store", "size"]
    flag: str
    variable: str


_COMMON: Final = (
    ConfigKey("listen", "address", "--listen", "LEASEHOLD_LISTEN"),
    ConfigKey("advertise", "address", "--advertise", "LEASEHOLD_ADVERTISE"),
    ConfigKey("seeds", "addresses", "--seed", "LEASEHOLD_SEEDS"),
    ConfigKey("cluster_key", "path", "--cluster-key", "LEASEHOLD_CLUSTER_KEY"),
    ConfigKey("gossip", "address", "--gossip", "LEASEHOLD_GOSSIP"),
    ConfigKey("tls", "path", "--tls", TLS_VARIABLE),
)
_COORDINATORS: Final = ConfigKey("coordinators", "addresses", "--coordinator", "LEASEHOLD_COORDINATORS")
NODE_KEYS: Final = (
    ConfigKey("dir", "path", "--dir", "LEASEHOLD_NODE_DIR"),
    ConfigKey("name", "name", "--name", "LEASEHOLD_NAME"),
    ConfigKey("rack", "name", "--rack", "LEASEHOLD_RACK"),
    _COORDINATORS,
    *_COMMON,
)
META_KEYS: Final = (
    ConfigKey("meta", "store", "--meta", "LEASEHOLD_META"),
    ConfigKey("meta_ca", "path", "--meta-ca", "LEASEHOLD_META_CA"),
    ConfigKey("meta_cert", "path", "--meta-cert", "LEASEHOLD_META_CERT"),
    ConfigKey("meta_key", "path", "--meta-key", "LEASEHOLD_META_KEY"),
    ConfigKey("meta_user", "name", "--meta-user", "LEASEHOLD_META_USER"),
    ConfigKey("meta_password_file", "path", "--meta-password-file", "LEASEHOLD_META_PASSWORD_FILE"),
    ConfigKey("meta_quota", "size", "--meta-quota", "LEASEHOLD_META_QUOTA"),
)
"""Of the engine that keeps a shared meta storage."""
COORDINATOR_KEYS: Final = (ConfigKey("dir", "path", "--dir", "LEASEHOLD_COORDINATOR_DIR"), *_COMMON, *META_KEYS)


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the configurations of a node and of a coordinator have in common."""

    directory: Path
    listen: str
    advertise: str | None = None
    seeds: tuple[str, ...] = ()
    cluster_key: Path | None = None
    gossip: str | None = None
    tls: Path | None = None

    def advertised(self, listening: str) -> str:
        """The address that other processes get of a server that really listens at `listening`."""
        if self.advertise is None:
            return listening
        host, _, port = self.advertise.rpartition(":")
        return f"{host}:{listening.rpartition(':')[2]}" if int(port) == 0 else self.advertise

    @property
    def gossips_at(self) -> str:
        """Where it receives gossip; without a choice where it serves, over UDP."""
        return self.gossip or self.listen

    def gossip_advertised(self, receiving: str, service: str) -> str:
        """The address that other processes get of gossip that is really received at `receiving`, of a process that
        advertises `service`."""
        if self.gossip is not None and not is_everywhere(self.gossip):
            return receiving
        return f"{service.rpartition(':')[0]}:{receiving.rpartition(':')[2]}"


class CoordinatorConfig(ProcessConfig, frozen=True, kw_only=True):
    """The configuration of a coordinator. Without `meta` its meta storage is a file of its own."""

    meta: StoreLocation | None = None
    meta_ca: Path | None = None
    meta_cert: Path | None = None
    meta_key: Path | None = None
    meta_user: str | None = None
    meta_password_file: Path | None = None
    meta_quota: int = STORE_QUOTA_BYTES

    @property
    def label(self) -> str:
        """Its name for people: the directory's, where that can be a name."""
        name = self.directory.absolute().name
        return name if NODE_NAME.fullmatch(name) else ""


class NodeConfig(ProcessConfig, frozen=True, kw_only=True):
    """The configuration of a node."""

    name: str
    rack: str = ""
    coordinators: tuple[str, ...] = ()


def node_config(file: Path | None, given: Mapping[str, object]) -> NodeConfig:
    """From the file, and from `given`: flags or variables by key, None where there is none. Raises `BadSettings`."""
    values = _combined("node", file, given)
    directory = values["dir"]
    assert isinstance(directory, Path)
    name = values.get("name") or directory.absolute().name
    if not isinstance(name, str) or NODE_NAME.fullmatch(name) is None:
        raise BadSettings(
            f"{str(name)[:CONFIG_SHOWN_MAX]!r} is not a node name",
            hint="use letters, digits, '.', '_' and '-' with --name, at most 63, the first a letter or a digit",
        )
    rack = values.get("rack", "")
    if rack and (not isinstance(rack, str) or NODE_NAME.fullmatch(rack) is None):
        raise BadSettings(
            f"{str(rack)[:CONFIG_SHOWN_MAX]!r} is not the name of a rack",
            hint="use letters, digits, '.', '_' and '-' with --rack, at most 63, the first a letter or a digit",
        )
    return _made(NodeConfig, values | {"name": name})


def node_directory(file: Path | None, given: Mapping[str, object]) -> Path:
    """The directory of a node that does not run; unlike `node_config`, it accepts any name of a directory."""
    directory = _combined("node", file, given)["dir"]
    assert isinstance(directory, Path)
    return directory


def coordinator_addresses(given: tuple[str, ...]) -> tuple[str, ...]:
    """The addresses of a flag or variable. Raises `BadSettings` if one is not an address."""
    checked = _checked(_COORDINATORS, given, _flag_or_variable(_COORDINATORS))
    assert isinstance(checked, tuple)
    return checked


def coordinator_config(file: Path | None, given: Mapping[str, object]) -> CoordinatorConfig:
    """As `node_config`, of a coordinator."""
    values = _combined("coordinator", file, given)
    if "meta" not in values:
        for key in META_KEYS:
            if key.name in values:
                raise _bad(
                    key.name, "it says how to reach a store, and no store is given", hint=f"write --meta {EXAMPLE}"
                )
    for one, other in (
        ("meta_cert", "meta_key"),
        ("meta_key", "meta_cert"),
        ("meta_cert", "meta_ca"),
        ("meta_user", "meta_password_file"),
        ("meta_password_file", "meta_user"),
    ):
        if one in values and other not in values:
            raise _bad(one, f"it needs {other} beside it", hint=f"give both {one} and {other}")
    return _made(CoordinatorConfig, values)


def _flag_or_variable(key: ConfigKey) -> str:
    return f"{key.flag} or {key.variable}"


def _made(kind: type[C], values: Mapping[str, Value]) -> C:
    return msgspec.convert({("directory" if key == "dir" else key): value for key, value in values.items()}, kind)


def _combined(role: ProcessRole, file: Path | None, given: Mapping[str, object]) -> dict[str, Value]:
    keys = keys_of(role)
    assert given.keys() <= {key.name for key in keys}
    values = {} if file is None else read_config(role, _content(file), where=str(file), base=file.absolute().parent)
    for key in keys:
        value = given.get(key.name)
        if value is not None and value != []:
            values[key.name] = _checked(key, value, _flag_or_variable(key))
    if "dir" not in values:
        hint = f"give --dir, {keys[0].variable}, or dir in its --config file"
        raise BadSettings(f"a {role} needs a directory", hint=hint)
    for name in ("seeds", "gossip"):
        if name in values and "cluster_key" not in values:
            raise _bad(
                name,
                "gossip needs a cluster_key",
                hint="name the key file of the cluster with --cluster-key; `leasehold cluster-key FILE` creates one",
            )
    values.setdefault("listen", DEFAULT_LISTEN[role])
    listen = str(values["listen"])
    if is_everywhere(listen) and "tls" in values and "advertise" not in values:
        raise _bad(
            "listen",
            f"nobody knows which address is meant by {listen}",
            hint="say with advertise at which host:port other processes reach this one",
        )
    if "cluster_key" in values:
        _check_gossip(values, listen)
    return values


def _check_gossip(values: Mapping[str, Value], listen: str) -> None:
    """Refuses what no process could ever hear or use: the process would be silent for ever."""
    gossip, seeds = str(values.get("gossip", listen)), values.get("seeds", ())
    assert isinstance(seeds, tuple)
    own = anywhere(gossip)[0]
    service = str(values.get("advertise", listen))
    if "gossip" in values and is_loopback(service) and not is_loopback(gossip) and not is_everywhere(gossip):
        raise _bad(
            "gossip",
            f"it would tell other machines of {service}, which only this machine reaches",
            hint="serve at an address that they reach, with tls and listen or advertise; or gossip on loopback",
        )
    for seed in seeds:
        host = numeric(host_of(seed))
        if host is None:
            continue  # a name: its address may change
        if (":" in own) is not (host.version == 6) and own != EVERY_IPV6:
            raise _bad("seeds", f"{seed} can't be asked from {gossip}", hint="give both as IPv4, or both as IPv6")
        if is_loopback(gossip) and not host.is_loopback:
            raise _bad(
                "seeds",
                f"{seed} can't be asked from {gossip}, which reaches only this machine",
                hint="say with gossip at which address of this machine other machines reach it",
            )


def own_keys(file: Path) -> tuple[bool, bool]:
    """Whether a file has a key that only nodes have, and one that only coordinators have. Raises `BadSettings`."""
    names = _table(_content(file), str(file)).keys()
    nodes, coordinators = ({key.name for key in keys} for keys in (NODE_KEYS, COORDINATOR_KEYS))
    return bool(names & (nodes - coordinators)), bool(names & (coordinators - nodes))


def keys_of(role: ProcessRole) -> tuple[ConfigKey, ...]:
    """The keys of a kind of process, `dir` first."""
    return NODE_KEYS if role == "node" else COORDINATOR_KEYS


# ---------------------------------------------------------------- the file


def _content(file: Path) -> bytes:
    def refused(text: str, hint: str) -> BadSettings:
        return _bad(str(file), f"it {text}", hint=hint)

    return read_any(file, CONFIG_BYTES_MAX, refused, "check --config: it names a file of a few lines")


def read_config(role: ProcessRole, content: bytes, *, where: str, base: Path) -> dict[str, Value]:
    """The values of a file by key; relative paths are relative to `base`. Raises `BadSettings` with code BAD_CONFIG."""
    keys = {key.name: key for key in keys_of(role)}
    values: dict[str, Value] = {}
    for name, value in _table(content, where).items():
        if name not in keys:
            raise _unknown(role, where, name)
        checked = _checked(keys[name], value, f"{where}: {name}")
        values[name] = base / checked if isinstance(checked, Path) else checked
    return values


def _table(content: bytes, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"it is not valid TOML: {error}"
        raise _bad(where, why[:CONFIG_SHOWN_MAX], hint="write lines such as listen = '127.0.0.1:7400'") from error


def _unknown(role: ProcessRole, where: str, name: str) -> BadSettings:
    shown = f"{name[:CONFIG_SHOWN_MAX]!r}"
    if name.casefold() in {one.name for one in SETTINGS}:
        return _bad(
            where,
            f"{shown} is a setting of the cluster, not of a process",
            hint=f"set it with ALTER CLUSTER SET {name.casefold()} = ..",
        )
    names = [key.name for key in keys_of(role)]
    near = get_close_matches(name[:CONFIG_SHOWN_MAX].casefold(), names, n=1)
    hint = f"did you mean {near[0]}?" if near else "the keys are " + ", ".join(names)
    if role == "coordinator" and name in {key.name for key in NODE_KEYS}:
        hint = f"that is a key of nodes; those of coordinators are {', '.join(names)}"
    return _bad(where, f"there is no key {shown}", hint=hint)


def _bad(where: str, why: str, *, hint: str) -> BadSettings:
    return BadSettings(f"{where}: {why}", code=ErrorCode.BAD_CONFIG, hint=hint)


# ---------------------------------------------------------------- single values


def _checked(key: ConfigKey, value: object, where: str) -> Value:
    """A value of the right kind. Raises `BadSettings`."""
    match key.kind:
        case "path":
            text = str(value) if isinstance(value, Path) else value
            if not isinstance(text, str) or not text or "\0" in text:
                raise _wrong(where, value, "a path", "'data/node-1'")
            return Path(text)
        case "name":
            if not isinstance(value, str):
                raise _wrong(where, value, "a name", "'node-1'")
            return value
        case "store":
            if not isinstance(value, str):
                raise _wrong(where, value, "the place of a store", f"'{EXAMPLE}'")
            return parse_location(value)
        case "size":
            return _size(where, value)
        case "address":
            address = _address(where, value, any_port=True)
            if key.name == "advertise" and is_everywhere(address):
                raise _bad(
                    where,
                    f"no process can be reached at {address}",
                    hint="advertise the address that other processes use",
                )
            return address
        case "addresses":
            addresses = _addresses(where, value)
            return tuple(map(_numeric, addresses)) if key.name == "coordinators" else addresses


def _addresses(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(where, value, "a list of addresses", "['127.0.0.1:7000']")
    if len(value) > CONFIG_ADDRESSES_MAX:
        raise _bad(where, f"{len(value)} addresses", hint=f"give at most {CONFIG_ADDRESSES_MAX}")
    for one in value:
        if isinstance(one, str) and "," in one:
            hint = "separate addresses by blanks in a variable, repeat the flag, or write a list in a file"
            raise _bad(where, f"{one[:CONFIG_SHOWN_MAX]!r} has a comma in it", hint=hint)
    return tuple(_address(where, one, any_port=False) for one in value)


def _size(where: str, value: object) -> int:
    found = SIZE.fullmatch(str(value)) if isinstance(value, str | int) else None
    if found is None or isinstance(value, bool):
        raise _wrong(where, value, "a size", "'2GiB'")
    size = int(found[1]) * UNITS[found[2]]
    if not STORE_QUOTA_MIN_BYTES <= size <= STORE_QUOTA_MAX_BYTES:
        raise _bad(where, f"{size} bytes is out of range", hint="give 16MiB to 1024GiB")
    return size


def _address(where: str, value: object, *, any_port: bool) -> str:
    if not isinstance(value, str) or NODE_ADDRESS.fullmatch(value) is None:
        raise _wrong(where, value, "an address", "'127.0.0.1:7000', or '[::1]:7000'")
    if not (0 if any_port else 1) <= int(value.rpartition(":")[2]) <= PORT_MAX:
        raise _bad(where, f"{value!r} does not have a valid port", hint=f"ports are 1 to {PORT_MAX}")
    return value


def _numeric(address: str) -> str:
    """`localhost` as a number: a process that listens on `localhost` proves its numeric address, not that name."""
    host, _, port = address.rpartition(":")
    return f"{LOCALHOST}:{port}" if host == "localhost" else address


def _wrong(where: str, value: object, what: str, example: str) -> BadSettings:
    return _bad(where, f"{str(value)[:CONFIG_SHOWN_MAX]!r} is not {what}", hint=f"write {example}")
