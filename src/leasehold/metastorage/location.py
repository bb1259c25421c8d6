"""Where a shared meta storage is kept: `etcd://HOST:PORT,HOST:PORT/NAME`, or the same with `zookeeper://`."""

import re
from typing import Final

import msgspec

from leasehold.error_codes import ErrorCode
from leasehold.errors import BadSettings
from leasehold.ids import NODE_ADDRESS
from leasehold.limits.log import STORE_ENDPOINTS_MAX

ETCD: Final = "etcd"
ZOOKEEPER: Final = "zookeeper"
SCHEMES: Final = (ETCD, ZOOKEEPER)
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
PORT_MAX: Final = 65_535
EXAMPLE: Final = "etcd://127.0.0.1:2379/my-cluster"
_SHOWN_MAX: Final = 80


class StoreLocation(msgspec.Struct, frozen=True):
    """An engine, the addresses of its members, and the name that this cluster's log has in it."""

    scheme: str
    endpoints: tuple[str, ...]
    name: str


def parse_location(text: str) -> StoreLocation:
    """Raises `BadSettings` that says what is wrong with it."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise _bad(text, f"it does not begin with {' or '.join(f'{one}://' for one in SCHEMES)}")
    addresses, _, name = rest.partition("/")
    if "@" in addresses:
        raise _bad(f"{scheme}://..", "a user belongs into meta_user, and a password into a file")
    if NAME.fullmatch(name) is None:
        raise _bad(text, "it needs a name for this cluster after the addresses, of letters, digits, '_' and '-'")
    if scheme == name == ZOOKEEPER:
        raise _bad(text, "ZooKeeper keeps this name for itself")
    endpoints = tuple(addresses.split(","))
    for one in endpoints:
        if NODE_ADDRESS.fullmatch(one) is None or not 1 <= int(one.rpartition(":")[2]) <= PORT_MAX:
            raise _bad(text, f"{one[:_SHOWN_MAX]!r} is not host:port")
    if len(set(endpoints)) < len(endpoints):
        raise _bad(text, "it names an address twice")
    if len(endpoints) > STORE_ENDPOINTS_MAX:
        raise _bad(text, f"it has {len(endpoints)} addresses, over {STORE_ENDPOINTS_MAX}")
    return StoreLocation(scheme, endpoints, name)


def _bad(text: str, why: str) -> BadSettings:
    return BadSettings(f"meta {text[:_SHOWN_MAX]!r}: {why}", code=ErrorCode.BAD_CONFIG, hint=f"write --meta {EXAMPLE}")
