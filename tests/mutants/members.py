"""Breaks of how a member of a local store comes back that lost its data."""

from typing import Final

from tests.mutants.model import Mutant
from tests.mutants.patch import Edit

UNSEEN: Final = "no random cluster has members of a real store"

MUTANTS = (
    Mutant(
        name="a member that lost its data keeps its id",
        invariant="INV-LOG-2",
        rule="a member of etcd without data gets another id, since others count on what it stored under the old one",
        edits=(Edit("replace_member", "for one in listed.members: ...", "pass"),),
        hunters=("tests/unit/metastorage/etcd/test_membership.py",),
        unseen=UNSEEN,
    ),
    Mutant(
        name="a member without data beside one that is down",
        invariant="INV-LOG-2",
        rule="a member without data is taken in only while all the others work together",
        edits=(
            Edit("MemberStart._take_in", "for one in others: ...", ""),
            Edit("MemberStart._take_in", "while not self._members.is_together(others): ...", ""),
        ),
        hunters=("tests/unit/local/test_rejoin.py",),
        unseen=UNSEEN,
    ),
    Mutant(
        name="a member without data that votes",
        invariant="INV-LOG-2",
        rule="only in a new cluster a member of ZooKeeper votes before it has the data of a leader",
        edits=(Edit("LocalZooKeeper.command", "is_new=is_new", "is_new=True"),),
        hunters=("tests/unit/local/test_zookeeper.py",),
        unseen=UNSEEN,
    ),
)
