"""The node's side of local opens: an open that has ended stays until its links are gone."""

import msgspec
import pytest

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.lease.holder import Lease, Pass
from leasehold.core.local import opens
from leasehold.core.local.opens import LocalOpens
from leasehold.core.words.messages import Cutoff, OpenLocal
from leasehold.errors import LeaseholdError, Refused
from leasehold.ids import ClusterId, Generation, LoginToken, ObjectId, Revision, Sequence, Term

VIEW = Catalog()
WHY = Refused("it is over")


def request(name: str) -> OpenLocal:
    return OpenLocal(
        cluster_id=ClusterId("c"),
        request=name,
        proof=b"",
        table=ObjectId(1),
        fields=(),
        groups=(),
        revision=Revision(0),
        cutoff=Cutoff(revision=Revision(0), deletes=0, undecided=(), earliest_us=None),
        generation=Generation(1),
    )


def passed(deadline_ns: int, released_ns: int) -> Pass[Catalog]:
    return Pass(VIEW, Lease(term=Term(1), sequence=Sequence(1), deadline_ns=deadline_ns), released_ns)


def code(call) -> str:
    with pytest.raises(LeaseholdError) as caught:
        call()
    return caught.value.code


@pytest.fixture
def allows(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether views allow all opens."""
    found = [True]

    def check(*_: object) -> None:
        if not found[0]:
            raise WHY

    monkeypatch.setattr(opens, "check_lasting", check)
    return found


def test_an_open_lasts_until_the_deadline_of_the_last_lease(allows: list[bool]) -> None:
    made = LocalOpens()
    made.begin(request("a"), "u")
    made.time_passed(10**12)
    assert made.to_remove() == (), "its links are being made"
    assert made.extend("a", None, "u", passed(100, 30)) == 70
    assert made.extend("a", None, "u", passed(200, 150)) == 50
    made.time_passed(199)
    assert made.to_remove() == ()
    made.time_passed(200)
    assert made.to_remove() == ("a",)
    assert code(lambda: made.extend("a", None, "u", passed(300, 201))) == "LOCAL_ENDED"


def test_what_a_view_forbids_stays_until_its_links_are_gone(allows: list[bool]) -> None:
    made = LocalOpens()
    for name in ("a", "b"):
        made.begin(request(name), "u")
    made.extend("a", None, "u", passed(100, 30))
    made.viewed(VIEW)
    assert made.to_remove() == ()
    allows[0] = False
    made.viewed(VIEW)
    assert made.to_remove() == ("a", "b"), "those too whose links are being made"
    made.viewed(VIEW)
    made.removed("a")
    assert made.to_remove() == ("b",)
    allows[0] = True
    with pytest.raises(Refused) as caught:
        made.extend("b", None, "u", passed(100, 30))
    assert caught.value is WHY


def test_a_renewal_on_a_view_that_forbids_it_ends_an_open(allows: list[bool]) -> None:
    made = LocalOpens()
    made.begin(request("a"), "u")
    allows[0] = False
    assert code(lambda: made.extend("a", None, "u", passed(100, 30))) == WHY.code
    assert made.to_remove() == ("a",)


def test_an_id_is_used_once_and_by_one_user(allows: list[bool]) -> None:
    made = LocalOpens()
    made.begin(request("a"), "u")
    assert code(lambda: made.begin(request("a"), "u")) == "BAD_TICKET"
    assert code(lambda: made.extend("a", None, "v", passed(100, 30))) == "LOCAL_ENDED"
    made.end("a", WHY)
    made.end("a", Refused("another reason"))
    made.removed("a")
    assert code(lambda: made.begin(request("a"), "u")) == "BAD_TICKET"
    assert code(lambda: made.extend("unknown", None, "u", passed(100, 30))) == "LOCAL_ENDED"


def test_only_the_login_of_an_open_releases_it(allows: list[bool]) -> None:
    made = LocalOpens()
    made.begin(msgspec.structs.replace(request("a"), login=LoginToken("own")), "u")
    for other in (None, LoginToken("another")):
        made.release("a", other)
        assert made.to_remove() == ()
    made.release("unknown", None)
    made.extend("a", LoginToken("later"), "u", passed(100, 30))
    made.release("a", LoginToken("own"))
    assert made.to_remove() == ()
    made.release("a", LoginToken("later"))
    assert made.to_remove() == ("a",)


def test_opens_are_bounded_of_a_user_and_in_all(allows: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opens, "LOCAL_OPENS_PER_USER_MAX", 2)
    monkeypatch.setattr(opens, "LOCAL_OPENS_MAX", 3)
    monkeypatch.setattr(opens, "LOCAL_ENDS_KEPT_MAX", 1)
    made = LocalOpens()
    made.begin(request("a"), "u")
    made.begin(request("b"), "u")
    assert code(lambda: made.begin(request("c"), "u")) == "BUSY"
    made.begin(request("c"), "v")
    made.end_all()
    assert code(lambda: made.begin(request("d"), "w")) == "BUSY", "until their links are gone"
    for one in made.to_remove():
        made.removed(one)
    made.begin(request("d"), "w")


def test_a_renewal_by_another_login_that_may_not_read_it_ends_no_open(allows: list[bool]) -> None:
    made = LocalOpens()
    made.begin(msgspec.structs.replace(request("a"), login=LoginToken("own")), "u")
    made.extend("a", LoginToken("own"), "u", passed(100, 30))
    allows[0] = False
    assert code(lambda: made.extend("a", LoginToken("of another table"), "u", passed(200, 30))) == WHY.code
    assert made.to_remove() == ()
    made.time_passed(100)
    assert made.to_remove() == ("a",), "it is not renewed either"
