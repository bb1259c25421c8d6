"""Where the keys of a store are among the nodes of ZooKeeper.

The key `directory/name` is the node `/PREFIX/directory/GROUP/name`. GROUP is the beginning of the name. ZooKeeper can
list only all children of a node, and an answer with all entries of a log would be large. The beginnings of names are in
the same order as the names. So a page reads the groups in their order, and each group in its own.
"""

import msgspec

from leasehold.limits.zookeeper import ZOOKEEPER_GROUP_CHARACTERS


class Layout(msgspec.Struct, frozen=True):
    """The nodes of one store."""

    prefix: str

    @property
    def root(self) -> str:
        return f"/{self.prefix}"

    def directory(self, directory: str) -> str:
        return f"{self.root}/{directory}"

    def node(self, key: str) -> str:
        directory, _, name = key.partition("/")
        return f"{self.root}/{directory}/{group_of(name)}/{name}"

    def parents(self, key: str) -> tuple[str, str, str]:
        """The nodes above that of a key, the uppermost first."""
        directory, _, name = key.partition("/")
        return self.root, self.directory(directory), f"{self.directory(directory)}/{group_of(name)}"

    @property
    def quota(self) -> str:
        """ZooKeeper counts what lies below a node if a quota for it lies below this one."""
        return f"/zookeeper/quota{self.root}"


def group_of(name: str) -> str:
    return name[:ZOOKEEPER_GROUP_CHARACTERS]
