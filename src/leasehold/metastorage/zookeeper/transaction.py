"""A swap as one transaction of ZooKeeper. Pure: what is sent, and what the answer means.

ZooKeeper has no put: a node is created, or its value is set. It compares versions, but can't demand that a node is
missing. So a swap begins with a belief about nodes that it does not compare. Where the belief is wrong the transaction
fails, nothing has happened, and after a look the next one is sent.

| a swap wants | operations, if the node is believed | |
| --- | --- | --- |
| | there | missing |
| its version, and no put | check | |
| its version, and a put | set, if it has the version | |
| that it is missing, and a put | create | create |
| that it is missing, and no put | create, delete | create, delete |
| a put | set | create |
| a delete | delete | create, delete |
| the nodes above one of these | | create |

The version of a key is one more than the version of its node, since `MISSING` is 0. ZooKeeper counts up to 2^31 - 1,
then on from -2^31, and takes -1 for any version. So a set that would end at -1 is done twice.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)
from kazoo.protocol.states import ZnodeStat

from leasehold.metastorage.log.store import MISSING, Swap
from leasehold.metastorage.zookeeper.layout import Layout

_COUNT: Final = 2**32
_BEFORE_ANY: Final = -2
_AFTER_OR_BEFORE: Final = (RolledBackError, RuntimeInconsistency)
UNDONE: Final = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError, *_AFTER_OR_BEFORE)
"""What becomes of operations of a transaction that did not happen because of what the nodes are."""


class Check(NamedTuple):
    """The node has this version, or any if that is None."""

    path: str
    version: int | None


class Create(NamedTuple):
    """The node is missing, and there afterwards."""

    path: str
    value: bytes


class Put(NamedTuple):
    """The node has this version, or any if that is None, and another value and version afterwards."""

    path: str
    value: bytes
    version: int | None


class Delete(NamedTuple):
    """The node is there, and missing afterwards."""

    path: str


Operation = Check | Create | Put | Delete


class SwapStep(NamedTuple):
    """One operation of a swap."""

    operation: Operation
    is_compare: bool
    """Whether the swap itself demands it, not a belief."""
    key: str | None = None
    """The key that it puts."""


def key_version(stat: ZnodeStat) -> int:
    return stat.version % _COUNT + 1


def node_version(version: int) -> int:
    """The version of the node, for that of its key."""
    number = version - 1
    return number if number < _COUNT // 2 else number - _COUNT


def parents_of(swap: Swap, layout: Layout) -> list[str]:
    """The nodes above those that are created or deleted, the uppermost first."""
    return sorted({path for key in _made(swap) for path in layout.parents(key)})


def uncompared(swap: Swap, layout: Layout) -> list[str]:
    """The nodes that a swap changes and does not compare."""
    return [layout.node(key) for key in (*swap.puts, *swap.deletes) if key not in swap.unchanged]


def steps_of(swap: Swap, layout: Layout, missing: frozenset[str]) -> list[SwapStep]:
    """The transaction if, of `parents_of` and `uncompared`, those in `missing` are missing and the others are there."""
    steps = [
        SwapStep(Check(layout.node(key), node_version(version)), is_compare=True)
        for key, version in swap.unchanged.items()
        if version != MISSING and key not in swap.puts
    ]
    steps += [SwapStep(Create(path, b""), is_compare=False) for path in parents_of(swap, layout) if path in missing]
    for key, value in swap.puts.items():
        steps += _put(layout.node(key), key, value, swap.unchanged.get(key), missing)
    absent = [key for key, version in swap.unchanged.items() if version == MISSING and key not in swap.puts]
    for key in absent:
        steps += _absent(layout.node(key), is_compare=True)
    for key in swap.deletes:
        path = layout.node(key)
        if key in absent:
            continue
        steps += _absent(path, is_compare=False) if path in missing else [SwapStep(Delete(path), is_compare=False)]
    return steps


def _made(swap: Swap) -> set[str]:
    return {*swap.puts, *swap.deletes, *(key for key, version in swap.unchanged.items() if version == MISSING)}


def _put(path: str, key: str, value: bytes, version: int | None, missing: frozenset[str]) -> list[SwapStep]:
    if version == MISSING or (version is None and path in missing):
        return [SwapStep(Create(path, value), is_compare=version is not None, key=key)]
    if version is None:
        return [SwapStep(Put(path, value, None), is_compare=False, key=key)]
    expected = node_version(version)
    first = SwapStep(Put(path, value, expected), is_compare=True, key=key)
    return [first, SwapStep(Put(path, value, None), is_compare=False, key=key)] if expected == _BEFORE_ANY else [first]


def _absent(path: str, *, is_compare: bool) -> list[SwapStep]:
    return [SwapStep(Create(path, b""), is_compare=is_compare), SwapStep(Delete(path), is_compare=False)]


class Rejected(NamedTuple):
    """The transaction did not happen, because of this step."""

    step: SwapStep
    error: ZookeeperError

    @property
    def is_decided(self) -> bool:
        """Whether a compare of the swap did not hold, whatever is believed."""
        if not self.step.is_compare:
            return False
        # A node may be missing because the one above it is: that is a matter of belief.
        return isinstance(self.error, BadVersionError | NodeExistsError) or not isinstance(self.step.operation, Create)


def outcome_of(steps: Sequence[SwapStep], results: Sequence[object]) -> Mapping[str, int] | Rejected:
    """The new version of each key that was put, or why nothing happened."""
    for step, result in zip(steps, results, strict=True):
        if isinstance(result, ZookeeperError) and not isinstance(result, _AFTER_OR_BEFORE):
            return Rejected(step, result)
    versions: dict[str, int] = {}
    for step, result in zip(steps, results, strict=True):
        if step.key is not None:
            versions[step.key] = key_version(result) if isinstance(result, ZnodeStat) else MISSING + 1
    return versions
