"""Which releases of etcd can keep a log.

| releases | why | |
| --- | --- | --- |
| below 3.4 | they do not answer all that is asked | refused |
| 3.4 | no longer maintained; before 3.4.42 a read can be stale | warned about |
| 3.5.0 to 3.5.5 | a member that is killed, or runs out of memory, can lose or differ in what it holds | refused |
| 3.5.6 to 3.5.27, 3.6.0 to 3.6.8 | a read can be stale after a pause of a member | warned about |

At a member whose reads can be stale, the client pays a write for each read (`EtcdClient`).
"""

from typing import Final

from leasehold.metastorage.log.store import StoreUnsuitable
from leasehold.metastorage.releases import parse_release

_OLDEST: Final = (3, 4, 0)
_DAMAGING: Final = ((3, 5, 0), (3, 5, 5))
_UNMAINTAINED_BELOW: Final = (3, 5, 0)
_STALE_BELOW: Final = {(3, 4): 42, (3, 5): 28, (3, 6): 9}


def check_release(address: str, version: str) -> None:
    """Raises `StoreUnsuitable` for a member whose release can't keep a log."""
    release = parse_release(version)
    hint = "upgrade etcd to the newest release of 3.5 or 3.6"
    if release is None or release < _OLDEST:
        raise StoreUnsuitable(f"etcd at {address} is of the release {version!r}, and 3.4 is the oldest", hint=hint)
    if _DAMAGING[0] <= release <= _DAMAGING[1]:
        raise StoreUnsuitable(f"etcd {version} at {address} can lose what it holds after a crash", hint=hint)


def release_warning(name: str, address: str, version: str) -> str:
    """A sentence about a member that should be upgraded, empty for another one."""
    why = _warning(version)
    return f"etcd {version} of {name} at {address} {why}" if why else ""


def can_read_stale(version: str) -> bool:
    """Whether a member of this release may answer a linearizable read with what was true before the read began."""
    release = parse_release(version)
    return release is None or _lacks_fix(release)


def _warning(version: str) -> str | None:
    release = parse_release(version)
    if release is None:
        return "is of an unknown release"
    if release < _UNMAINTAINED_BELOW:
        return "is no longer maintained; upgrade it to 3.5 or 3.6"
    if _lacks_fix(release):
        fixed = f"{release[0]}.{release[1]}.{_STALE_BELOW[release[:2]]}"
        return f"can answer reads with old values, so each read costs a write; upgrade it to {fixed}"
    return None


def _lacks_fix(release: tuple[int, int, int]) -> bool:
    return release[2] < _STALE_BELOW.get(release[:2], 0)
