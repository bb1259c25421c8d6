"""The configuration of one process: its TOML file, then LEASEHOLD_* variables, then flags, each over the one before.

What all processes must agree on is no key here: it lies in the meta storage and changes with ALTER CLUSTER SET. So a
name is either a key of a process or a setting of the cluster, never both.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from leasehold.core.ddl.settings import SETTINGS
from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.ids import NODE_ADDRESS, NODE_NAME
from leasehold.limits.processes import CONFIG_ADDRESSES_MAX, CONFIG_BYTES_MAX, CONFIG_SHOWN_MAX
from leasehold.wire.addresses import LOCALHOST, loopback

ProcessRole: TypeAlias = Literal["node", "coordinator"]
Value: TypeAlias = str | Path | tuple[str, ...]
C = TypeVar("C", bound="ProcessConfig")

ANY_PORT: Final = "127.0.0.1:0"
PORT_MAX: Final = 65_535


class ConfigKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the file. It has a flag and a variable too, by other names where a list is given one by one.

    docs/configuration.md says what each is for, and what counts where it is not given.
    """

    name: str
    kind: Literal["path", "name", "address", "addresses"]
    flag: str
    variable: str


def _key(
    name: str,
    kind: Literal["path", "name", "address", "addresses"],
    *,
    flag: str = "",
    variable: str = "",
) -> ConfigKey:
    return ConfigKey(
        name=name,
        kind=kind,
        flag=flag or f"--{name.replace('_', '-')}",
        variable=variable or f"LEASEHOLD_{name.upper()}",
    )


_COMMON: Final = (
    _key("listen", "address"),
    _key("advertise", "address"),
    _key("seeds", "addresses", flag="--seed"),
    _key("cluster_key", "path"),
    _key("gossip", "address"),
)
NODE_KEYS: Final = (
    _key("dir", "path", variable="LEASEHOLD_NODE_DIR"),
    _key("name", "name"),
    _key("coordinators", "addresses", flag="--coordinator"),
    *_COMMON,
)
COORDINATOR_KEYS: Final = (_key("dir", "path", variable="LEASEHOLD_COORDINATOR_DIR"), *_COMMON)
_EVERYWHERE: Final = ("0.0.0.0", "[::]")  # noqa: S104 never listened on
"""All addresses of a machine, for who listens there; for others they are addresses of their own machine."""


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a coordinator is told; a node is told more."""

    directory: Path
    listen: str = ANY_PORT
    advertise: str | None = None
    seeds: tuple[str, ...] = ()
    cluster_key: Path | None = None
    gossip: str | None = None

    def advertised(self, listening: str) -> str:
        """What others are told of a server that really listens at `listening`."""
        if self.advertise is None:
            return listening
        host, _, port = self.advertise.rpartition(":")
        return f"{host}:{listening.rpartition(':')[2]}" if int(port) == 0 else self.advertise


class CoordinatorConfig(ProcessConfig, frozen=True, kw_only=True):
    """All that a coordinator is told."""


class NodeConfig(ProcessConfig, frozen=True, kw_only=True):
    """All that a node is told."""

    name: str
    coordinators: tuple[str, ...] = ()


def node_config(file: Path | None, given: Mapping[str, object]) -> NodeConfig:
    """The configuration of a node, from its file and from `given`: flags or variables by key, None where there is none.

    Raises `BadSettings`.
    """
    values = _combined("node", file, given)
    directory = values["dir"]
    assert isinstance(directory, Path)
    name = values.get("name") or directory.absolute().name
    if not isinstance(name, str) or NODE_NAME.fullmatch(name) is None:
        raise BadSettings(
            f"{str(name)[:CONFIG_SHOWN_MAX]!r} is not a node name",
            hint="use letters, digits, '.', '_' and '-' with --name, at most 63, the first a letter or a digit",
        )
    return _made(NodeConfig, values | {"name": name})


def node_directory(file: Path | None, given: Mapping[str, object]) -> Path:
    """Where a node lives, for what is done while none runs there: its name may be what no node can have."""
    directory = _combined("node", file, given)["dir"]
    assert isinstance(directory, Path)
    return directory


def coordinator_addresses(given: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a flag or variable. Raises `BadSettings` if one is no address."""
    key = next(one for one in NODE_KEYS if one.name == "coordinators")
    checked = _checked(key, given, f"{key.flag} or {key.variable}")
    assert isinstance(checked, tuple)
    return checked


def coordinator_config(file: Path | None, given: Mapping[str, object]) -> CoordinatorConfig:
    """The same of a coordinator."""
    return _made(CoordinatorConfig, _combined("coordinator", file, given))


def _made(kind: type[C], values: Mapping[str, Value]) -> C:
    return msgspec.convert({("directory" if key == "dir" else key): value for key, value in values.items()}, kind)


def _combined(role: ProcessRole, file: Path | None, given: Mapping[str, object]) -> dict[str, Value]:
    keys = keys_of(role)
    assert given.keys() <= {key.name for key in keys}
    values = {} if file is None else read_config(role, _content(file), where=str(file), base=file.absolute().parent)
    for key in keys:
        value = given.get(key.name)
        if value is not None and value != []:
            values[key.name] = _checked(key, value, f"{key.flag} or {key.variable}")
    if "dir" not in values:
        variable = keys[0].variable
        raise BadSettings(f"a {role} needs a directory", hint=f"give --dir, {variable}, or dir in its --config file")
    for name in ("seeds", "gossip"):
        if name in values and "cluster_key" not in values:
            raise _bad(
                name,
                "gossip needs a cluster_key",
                hint="name the key file of the cluster with --cluster-key; `leasehold cluster-key FILE` creates one",
            )
    if "cluster_key" in values:
        _check_seeds(values)
    return values


def _check_seeds(values: Mapping[str, Value]) -> None:
    """Datagrams go to numeric addresses of this machine alone: to any other the process would say nothing, for ever."""
    gossip, seeds = values.get("gossip", ANY_PORT), values.get("seeds", ())
    assert isinstance(gossip, str)
    assert isinstance(seeds, tuple)
    is_ipv6 = ":" in loopback(gossip)[0]
    for seed in seeds:
        try:
            host, _ = loopback(seed)
        except BadSettings as error:
            raise _bad(
                "seeds",
                f"{seed[:CONFIG_SHOWN_MAX]!r} can't be a seed: gossip reaches only this machine and does not"
                " resolve names",
                hint="write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT",
            ) from error
        if (":" in host) is not is_ipv6:
            raise _bad("seeds", f"{seed} can't be asked from {gossip}", hint="give both as IPv4, or both as IPv6")


def keys_of(role: ProcessRole) -> tuple[ConfigKey, ...]:
    """The keys of a kind of process, `dir` first."""
    return NODE_KEYS if role == "node" else COORDINATOR_KEYS


# ---------------------------------------------------------------- the file


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(CONFIG_BYTES_MAX + 1)
    except OSError as error:
        raise _bad(
            str(file), f"it can't be read: {error.strerror}", hint="check --config and its permissions"
        ) from error


def read_config(role: ProcessRole, content: bytes, *, where: str, base: Path) -> dict[str, Value]:
    """The values of a file by key; relative paths are relative to `base`. Raises `BadSettings` with code BAD_CONFIG."""
    if len(content) > CONFIG_BYTES_MAX:
        raise _bad(
            where,
            f"it is larger than {CONFIG_BYTES_MAX} bytes",
            hint="shorten the file; a configuration is a few lines",
        )
    try:
        table = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else f"it is not valid TOML: {error}"
        raise _bad(where, why[:CONFIG_SHOWN_MAX], hint="write lines such as listen = '127.0.0.1:7400'") from error
    keys = {key.name: key for key in keys_of(role)}
    values: dict[str, Value] = {}
    for name, value in table.items():
        if name not in keys:
            raise _unknown(role, where, name)
        checked = _checked(keys[name], value, f"{where}: {name}")
        values[name] = base / checked if isinstance(checked, Path) else checked
    return values


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
        case "address":
            address = _address(where, value, any_port=True)
            if key.name == "advertise" and address.rpartition(":")[0] in _EVERYWHERE:
                raise _bad(
                    where,
                    f"no process can be reached at {address}",
                    hint="advertise the address that other processes use",
                )
            return address
        case "addresses":
            if not isinstance(value, list | tuple):
                raise _wrong(where, value, "a list of addresses", "['127.0.0.1:7000']")
            if len(value) > CONFIG_ADDRESSES_MAX:
                raise _bad(where, f"{len(value)} addresses", hint=f"give at most {CONFIG_ADDRESSES_MAX}")
            for one in value:
                if isinstance(one, str) and "," in one:
                    hint = "separate addresses by blanks in a variable, repeat the flag, or write a list in a file"
                    raise _bad(where, f"{one[:CONFIG_SHOWN_MAX]!r} has a comma in it", hint=hint)
            addresses = tuple(_address(where, one, any_port=False) for one in value)
            return tuple(map(_numeric, addresses)) if key.name == "coordinators" else addresses


def _address(where: str, value: object, *, any_port: bool) -> str:
    if not isinstance(value, str) or NODE_ADDRESS.fullmatch(value) is None:
        raise _wrong(where, value, "an address", "'127.0.0.1:7000', or '[::1]:7000'")
    if not (0 if any_port else 1) <= int(value.rpartition(":")[2]) <= PORT_MAX:
        raise _bad(where, f"{value!r} does not have a valid port", hint=f"ports are 1 to {PORT_MAX}")
    return value


def _numeric(address: str) -> str:
    """`localhost` as the address that a process listens on which was told `localhost`: it proves no name."""
    host, _, port = address.rpartition(":")
    return f"{LOCALHOST}:{port}" if host == "localhost" else address


def _wrong(where: str, value: object, what: str, example: str) -> BadSettings:
    return _bad(where, f"{str(value)[:CONFIG_SHOWN_MAX]!r} is not {what}", hint=f"write {example}")
