"""Remembers from which peers each name has come. It keeps NAMES_WITH_PEERS_MAX names, and of each PEERS_OF_NAME_MAX
peers: those that came last. So it stays small, from however many addresses somebody comes.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

from leasehold.limits.people import NAMES_WITH_PEERS_MAX, PEERS_OF_NAME_MAX

N = TypeVar("N", str, bytes)


class PeersOfNames(Generic[N]):
    """A name may come from several peers, and several names from one."""

    def __init__(self) -> None:
        self._names: OrderedDict[N, OrderedDict[str, None]] = OrderedDict()
        self._of_peer: dict[str, dict[N, None]] = {}

    def __contains__(self, name: N) -> bool:
        return name in self._names

    def has(self, name: N, peer: str) -> bool:
        return peer in self._names.get(name, ())

    def add(self, name: N, peer: str) -> set[str]:
        """The name has come from this peer. Answers the peers of which `name_of` may have changed."""
        peers = self._names.setdefault(name, OrderedDict())
        self._names.move_to_end(name)
        if peer in peers:
            peers.move_to_end(peer)
            return set()
        peers[peer] = None
        self._of_peer.setdefault(peer, {})[name] = None
        changed = set(peers)
        if len(peers) > PEERS_OF_NAME_MAX:
            self._forget(name, next(iter(peers)))
        if len(self._names) > NAMES_WITH_PEERS_MAX:
            oldest = next(iter(self._names))
            changed |= set(self._names[oldest])
            for one in tuple(self._names[oldest]):
                self._forget(oldest, one)
        return changed

    def name_of(self, peer: str) -> N | None:
        """Of the names that have come from this peer, that which has come from fewest peers; None if none has."""
        return min(self._of_peer.get(peer, ()), key=lambda name: len(self._names[name]), default=None)

    def _forget(self, name: N, peer: str) -> None:
        peers, names = self._names[name], self._of_peer[peer]
        del peers[peer]
        if not peers:
            del self._names[name]
        del names[name]
        if not names:
            del self._of_peer[peer]
