"""Which releases of ZooKeeper can keep a log.

| releases | why | |
| --- | --- | --- |
| below 3.6 | no longer maintained, and a member that restarts can lose what it held | refused |
| 3.9.3 | a member that follows after a pause can lead without entries that were acknowledged | refused |
| 3.6, 3.7 | no longer maintained | warned about |
| 3.8.0 to 3.8.3, 3.9.0, 3.9.1 | a member that is killed at its start can lose what it held | warned about |

The faults are ZOOKEEPER-3642, ZOOKEEPER-4925 and ZOOKEEPER-4785.
"""

from typing import Final

from leasehold.metastorage.log.store import StoreUnsuitable
from leasehold.metastorage.releases import parse_release

_OLDEST: Final = (3, 6, 0)
_DAMAGING: Final = (3, 9, 3)
_UNMAINTAINED_BELOW: Final = (3, 8, 0)
_LOSING_BELOW: Final = {(3, 8): 4, (3, 9): 2}
_HINT: Final = "upgrade ZooKeeper to the newest release of 3.8 or 3.9"


def check_release(address: str, version: str) -> None:
    """Raises `StoreUnsuitable` for a member whose release can't keep a log. One that does not tell it passes."""
    release = parse_release(version)
    if release is not None and release < _OLDEST:
        text = f"ZooKeeper at {address} is of the release {version!r}, and 3.6 is the oldest"
        raise StoreUnsuitable(text, hint=_HINT)
    if release == _DAMAGING:
        raise StoreUnsuitable(f"ZooKeeper {version} at {address} can lose what it holds", hint=_HINT)


def release_warning(address: str, version: str) -> str:
    """A sentence about a member that should be upgraded, empty for another one."""
    why = _warning(version)
    return f"ZooKeeper {version} at {address} {why}" if why else ""


def _warning(version: str) -> str | None:
    release = parse_release(version)
    if release is None:
        return "is of an unknown release"
    if release < _UNMAINTAINED_BELOW:
        return "is no longer maintained; upgrade it to 3.8 or 3.9"
    fixed = _LOSING_BELOW.get(release[:2], 0)
    if release[2] < fixed:
        return f"can lose what it holds if it is killed at its start; upgrade it to {release[0]}.{release[1]}.{fixed}"
    return None
