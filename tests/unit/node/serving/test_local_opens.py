"""Local opens: a reader beside a node gets links to its files, and loses them with what allowed them (INV-OPEN-1)."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from leasehold.client import local_calls
from leasehold.client.local_calls import LocalNode
from leasehold.client.local_opens import LocalOpen, _Opening, open_locally
from leasehold.core.catalog.plan import put
from leasehold.core.local.reads import check_asked
from leasehold.core.words import keys
from leasehold.core.words.messages import AskLocalProof
from leasehold.core.words.records import HorizonRecord, Right, SegmentFormat
from leasehold.ids import ClusterId, Revision, SegmentId
from leasehold.limits.units import SECOND_NS
from leasehold.sql.parse import parse
from leasehold.storage import local_links
from tests.unit.node.cluster import CLUSTER, DROP_TABLE, Cluster, add, drop_column, no_lease, rename
from tests.unit.node.serving.opening import ended, left_over, lend, opened, pair, paths, reader, refused
from tests.unit.node.serving.test_authorised import TOKEN, right, settle

__all__ = ["pair"]


def test_the_files_of_each_group_are_those_of_the_node(pair: Cluster) -> None:
    open_ = opened(pair)
    found = paths(open_)
    assert [path.stem for path in found] == [one.id for one in pair.plan().segments]
    assert [path.parent.name for path in found] == ["0", "1"]
    assert sorted(pq.read_table(path).column("#1")[0].as_py() for path in found) == [0, 100]
    assert {path.stat().st_nlink for path in found} == {2}
    assert {oct(path.stat().st_mode & 0o777) for path in found} == {"0o600"}
    assert {oct(path.parent.parent.stat().st_mode & 0o777) for path in found} == {"0o700"}
    assert open_.left_out == {}
    served = [one for node in pair.nodes for one in (node.root / "servelog").glob("*")]
    assert served, "each segment has a serve record"
    open_.close()
    assert open_.ended is not None
    assert not any(path.exists() for path in found)
    assert left_over(pair) == []


def test_an_open_is_noted_by_one_serve_record(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    for node in pair.nodes:
        assert node.flight is not None
        segments = node.flight._scans._files
        monkeypatch.setattr(segments, "log", lambda ticket, _passed, _batch: logged.append(ticket.request))
    with_two = opened(pair)
    assert len(pair.plan().segments) > 1
    assert set(logged) == {folder.parent.name for group in with_two.folders for folder in group}
    assert len(logged) == len(set(logged))
    with_two.close()


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (lambda _: DROP_TABLE, "TABLE_DROPPED"),
        (lambda _: drop_column("v"), "COLUMN_DROPPED"),
        (lambda _: parse("DELETE FROM db.t WHERE k = 1"), "ROWS_TAKEN_AWAY"),
    ],
)
def test_what_a_statement_takes_away_can_not_be_opened_once_it_is_shown(
    pair: Cluster, statement: Callable[[Cluster], Any], code: str
) -> None:
    open_ = opened(pair)
    file = paths(open_)[0].open("rb")
    pair.hide(statement(pair))
    assert left_over(pair) == [], "gone before the view is reported"
    assert not any(path.exists() for path in paths(open_))
    assert file.read(4) == b"PAR1", "what is open is read to its end"
    file.close()
    problem = open_.check()
    assert problem is not None
    assert problem.code == code


def test_what_concerns_no_column_of_an_open_leaves_it(pair: Cluster) -> None:
    open_ = opened(pair, pair.plan("k"))
    pair.run(add("w"))
    pair.run(rename("v", "u"))
    pair.run(drop_column("u"))
    append_more = pair.plan("k")
    assert len(append_more.segments) == 2
    assert open_.check() is None
    assert len(paths(open_)) == 2
    open_.close()


def test_a_shorter_ttl_ends_an_open_and_a_horizon_that_moves_on_does_not(pair: Cluster) -> None:
    table = pair.table
    pair.change([put(keys.horizon(table.id), HorizonRecord(table=table.id, horizon_us=5))])
    open_ = opened(pair)
    pair.change([put(keys.horizon(table.id), HorizonRecord(table=table.id, horizon_us=9))])
    assert open_.check() is None
    later = HorizonRecord(table=table.id, horizon_us=99, since=table.deletes + 1)
    pair.change([put(keys.horizon(table.id), later)])
    assert left_over(pair) == []
    assert ended(open_) == "ROWS_TAKEN_AWAY"


def test_a_revoked_right_ends_an_open(pair: Cluster) -> None:
    settle(pair, right(pair, Right.SELECT))
    open_ = opened(pair, login=TOKEN)
    pair.change([right(pair, Right.SELECT, leaving=(Right.SELECT,))])
    assert left_over(pair) == []
    assert ended(open_) == "FORBIDDEN"


def test_an_open_whose_folder_is_gone_has_ended(pair: Cluster) -> None:
    open_ = opened(pair)
    assert open_.check() is None
    shutil.rmtree(paths(open_)[0].parents[1])
    ended_by = open_.check()
    assert ended_by is not None
    assert ended_by.code == "LOCAL_ENDED"
    assert ended_by.text.endswith("has started anew"), "whichever node it was"


def test_who_may_not_read_the_table_opens_nothing(pair: Cluster) -> None:
    settle(pair, right(pair, Right.INSERT))
    assert refused(lambda: opened(pair, login=TOKEN)) == "FORBIDDEN"
    assert refused(lambda: opened(pair)) == "UNAUTHENTICATED"
    assert left_over(pair) == []


def test_who_is_no_user_does_not_hear_where_files_are(pair: Cluster) -> None:
    settle(pair, right(pair, Right.SELECT))
    place = pair.facts().places[0]
    assert refused(lambda: LocalNode.at(place, CLUSTER, None, None).proof(Revision(0))) == "UNAUTHENTICATED"
    assert LocalNode.at(place, CLUSTER, None, TOKEN).proof(Revision(0))[0].name == "local"


def test_a_login_that_a_node_does_not_show_yet_is_waited_for(pair: Cluster) -> None:
    place = pair.facts().places[0]
    settle(pair, right(pair, Right.SELECT))
    asked, later = LocalNode.at(place, CLUSTER, None, TOKEN), Revision(pair.catalog.revision + 1)
    assert refused(lambda: asked.proof(later)) == "TIMED_OUT"
    pair.change([])
    assert asked.proof(later)[0].name == "local"


def opening_node(made: Cluster) -> Any:
    """The one that is asked first."""
    probe = opened(made)
    name = paths(probe)[0].parents[3]
    probe.close()
    return next(one for one in made.nodes if one.root == name)


def test_a_statement_between_both_guards_keeps_the_files_here(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[Path] = []
    whole = local_links.LocalLinks.link

    async def link(self: Any, request: str, groups: Any) -> str:
        folder = await whole(self, request, groups)
        links.append(Path(folder))
        if len(links) == 1:
            assert len(list(links[0].rglob("*.parquet"))) == 2
            pair.hide(DROP_TABLE)
        return folder

    monkeypatch.setattr(local_links.LocalLinks, "link", link)
    assert refused(lambda: opened(pair)) == "TABLE_DROPPED"
    assert len(links) == 1
    assert left_over(pair) == []


def test_a_node_that_is_fenced_between_both_guards_hands_out_nothing(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = local_links.LocalLinks.link

    async def link(self: Any, request: str, groups: Any) -> str:
        for node in pair.nodes:
            node.fence()
        return await whole(self, request, groups)

    monkeypatch.setattr(local_links.LocalLinks, "link", link)
    open_ = opened(pair)
    assert {one.code for one in open_.left_out.values()} == {"FENCED"}
    assert open_.folders == ((), ())
    assert left_over(pair) == []


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EMLINK, errno.ENOSPC, errno.EPERM])
def test_where_no_links_can_be_made_all_is_left_out(
    pair: Cluster, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    whole, made = os.link, [0]

    def link(*words: Any, **more: Any) -> None:
        made[0] += 1
        if made[0] % 2 == 0:
            raise OSError(number, os.strerror(number))
        whole(*words, **more)

    monkeypatch.setattr(local_links.os, "link", link)
    open_ = opened(pair)
    assert {one.code for one in open_.left_out.values()} == {"NO_LINKS"}
    assert left_over(pair) == []


@pytest.mark.parametrize("content", [b"0" * 32, b"0" * 33, b"no proof", b""])
def test_a_reader_of_another_file_system_opens_nothing(pair: Cluster, content: bytes) -> None:
    facts = pair.plan().facts
    for place in facts.places:
        LocalNode.at(place, facts.cluster_id, None, None).proof(Revision(0))
    for node in pair.nodes:
        (node.root / "local" / "proof").write_bytes(content)
    open_ = opened(pair)
    assert {one.code for one in open_.left_out.values()} == {"NOT_LOCAL"}
    assert left_over(pair) == []


def test_what_one_node_lacks_is_opened_at_another(pair: Cluster) -> None:
    first, second = pair.plan().segments
    node = opening_node(pair)
    node.files.trash(first.table, first.bucket, first.id)
    open_ = opened(pair)
    assert open_.left_out == {}
    assert [path.stem for path in paths(open_)] == [first.id, second.id]
    assert len({path.parents[3] for path in paths(open_)}) == 2
    open_.close()


def test_a_damaged_file_is_opened_at_another_node(pair: Cluster) -> None:
    first, _ = pair.plan().segments
    node = opening_node(pair)
    pair.stop(node)
    path = node.files.path(first.table, first.bucket, first.id)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    pair.start(node)
    open_ = opened(pair)
    (good,) = open_.folders[0]
    assert good.parents[2] != node.root
    assert open_.left_out == {}
    open_.close()


def test_files_of_the_first_format_are_left_out(pair: Cluster) -> None:
    plan = pair.plan()
    old = msgspec.structs.replace(plan.segments[0], format=SegmentFormat.COLUMN_NAMES)
    open_ = open_locally(plan, [[old, plan.segments[1]]], **reader())
    assert {key: one.code for key, one in open_.left_out.items()} == {old.id: "NOT_LOCAL"}
    assert [path.stem for path in paths(open_)] == [plan.segments[1].id]
    open_.close()


def test_a_surrender_takes_all_links_away_before_it_is_told(pair: Cluster) -> None:
    lend(pair, 60 * SECOND_NS)
    open_ = opened(pair)
    for node in pair.nodes:
        no_lease(node)
    assert left_over(pair) == []
    assert ended(open_) == "FENCED", "at the next renewal, not at the end of the lease"


def test_a_start_removes_what_an_earlier_process_left(pair: Cluster) -> None:
    lend(pair, SECOND_NS)
    open_ = opened(pair)
    for node in pair.nodes:
        (node.root / "local.7" / "x").mkdir(parents=True)
        pair.stop(node)
        pair.start(node)
        assert not (node.root / "local.7").exists()
    assert left_over(pair) == []
    assert ended(open_) in {"LOCAL_ENDED", "UNREACHABLE"}


def test_the_opens_of_a_user_are_bounded(pair: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.core.local.opens.LOCAL_OPENS_PER_USER_MAX", 2)
    held = [opened(pair) for _ in range(4)]  # at two nodes, one after the other
    assert all(len(paths(one)) == 2 for one in held)
    last = opened(pair)
    assert {one.code for one in last.left_out.values()} == {"BUSY"}
    for one in (*held, last):
        one.close()
    assert left_over(pair) == []


def test_a_request_out_of_bounds_is_refused(pair: Cluster) -> None:
    plan, made = pair.plan(), LocalOpen()
    opening = _Opening(plan, [plan.segments], made, **reader())
    good = opening._request(b"", [plan.segments])
    check_asked(good)
    group = good.groups[0]
    many = tuple(msgspec.structs.replace(group[0], segment=SegmentId(f"{number}")) for number in range(65))
    wrongs: list[dict[str, Any]] = [
        {"request": "../x"},
        {"groups": ()},
        {"groups": (group, ())},
        {"groups": (group, group)},
        {"groups": tuple((one,) for one in many)},
        {"groups": (many * 64,)},
        {"fields": plan.fields * 2},
    ]
    for wrong in wrongs:
        assert refused(lambda wrong=wrong: check_asked(msgspec.structs.replace(good, **wrong))) == "BAD_TICKET"


def test_another_cluster_is_told_nothing(pair: Cluster) -> None:
    place = pair.facts().places[0]
    other = ClusterId("d" * 32)
    asked = LocalNode(other, place.address, "", None, None)
    assert refused(lambda: asked.proof(Revision(0))) == "OTHER_CLUSTER"
    known = LocalNode(CLUSTER, place.address, "", None, None)
    answer = known.ask(AskLocalProof(cluster_id=CLUSTER), local_calls.LocalProof, SECOND_NS)
    assert Path(answer.path).name == "proof"
    assert known.renew(("e" * 32,), releases=True, timeout_ns=SECOND_NS).remaining_ns == 0
    (unknown,) = known.renew(("e" * 32,), releases=False, timeout_ns=SECOND_NS).ended
    assert unknown.why.code == "LOCAL_ENDED"
