"""SHOW USERS, ROLES and GRANTS."""

import msgspec
import pytest
from rpds import HashTrieMap

from leasehold.core.questions import principals
from leasehold.core.words.codec import encode
from leasehold.core.words.statements import OnCluster, OnDatabase, OnTable, OnView, ShowGrants, ShowPrincipals
from leasehold.errors import NotFound
from tests.unit.core.questions.shop import CATALOG, ORDERS, RECENT, principal


def failed(name):
    return {"bob": 3}.get(name, 0)


def test_users_with_roles_and_failed_logins_and_roles_with_users():
    users = principals.principals(ShowPrincipals(roles=False), CATALOG, failed)
    assert users.rows == (("ann", "readers", 0, False), ("bob", "", 3, False))
    roles = principals.principals(ShowPrincipals(roles=True), CATALOG, failed)
    assert roles.rows == (("readers", "ann"), ("writers", ""))
    assert b"argon2" not in encode(users) + encode(roles)


def test_rights_of_all_of_one_and_on_one_object():
    everything = "SELECT, INSERT, ALTER, DROP, CREATE"
    of_ann = ("ann", "user", "CLUSTER", "", everything)
    of_readers = ("readers", "role", "DATABASE", "shop", "SELECT")
    of_writers = ("writers", "role", "TABLE", "shop.Orders", "SELECT, INSERT")

    def show(principal=None, on=None):
        return principals.grants(ShowGrants(principal=principal, on=on), CATALOG).rows

    assert show() == (of_ann, of_readers, of_writers)
    assert show(principal="Ann") == (of_ann, of_readers), "with the rights of a role that is not being taken from her"
    assert show(principal="bob") == ()
    assert show(on=OnCluster()) == (of_ann,)
    assert show(on=OnDatabase(name="shop")) == (of_readers,)
    assert show(on=OnTable(table=ORDERS)) == (of_writers,)
    assert show(on=OnView(view=RECENT)) == ()
    for unknown in ({"principal": "left"}, {"on": OnTable(table=RECENT)}, {"on": OnDatabase(name="nowhere")}):
        with pytest.raises(NotFound):
            show(**unknown)


def test_the_roles_of_each_user_are_looked_at_once():
    looks = []

    class Roles(tuple):
        __slots__ = ()

        def __iter__(self):
            looks.append(tuple(self[:]))
            return super().__iter__()

    many = range(100, 200)
    both = CATALOG.changed(principal(number, f"r{number}", "role", password_hash=None) for number in many)
    counted = {number: msgspec.structs.replace(one, roles=Roles(one.roles)) for number, one in both.principals.items()}
    both = msgspec.structs.replace(both, principals=HashTrieMap(counted))
    principals.principals(ShowPrincipals(roles=True), both, failed)
    assert len(looks) == 2
