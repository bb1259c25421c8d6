"""What a receipt tells of the time that a statement took: its waits, its bound, and that of all its leaders."""

import json

import msgspec
import pytest

from leasehold.cli.output import Output
from leasehold.cli.receipt import show_receipt
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Outcome, Waited
from leasehold.ids import NodeId, Revision, StatementId

MS = 1_000_000
NAMES = {NodeId(1): "node-1", NodeId(2): "node-2"}
RECEIPT = Receipt(
    statement_id=StatementId("1" * 32),
    text="DROP TABLE d.t",
    revision=Revision(7),
    outcome=Outcome.COMMITTED,
    elapsed_ns=12 * MS,
    bound_ns=4_000 * MS,
    settled=(),
    pending=(),
    cleaning=(),
)


def shown(capsys: pytest.CaptureFixture[str], receipt: Receipt, output: Output) -> str:
    show_receipt(receipt, NAMES, output)
    return capsys.readouterr().out


def test_a_statement_that_waited_for_nothing_tells_its_time_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, RECEIPT, Output.TABLE).splitlines()
    assert lines[0] == "COMMITTED at revision 7 in 12 ms of at most 4000"
    assert not any("before that" in line or "leader" in line for line in lines)
    told = json.loads(shown(capsys, RECEIPT, Output.JSON))
    assert (told["queued_ms"], told["settling_ms"], told["settling"]) == (0, 0, [])
    assert (told["leader_changes"], told["bound_ms"], told["bound_all_leaders_ms"]) == (0, 4000, 4000)


def test_what_a_statement_waited_for_before_its_time_counts(capsys: pytest.CaptureFixture[str]) -> None:
    waited = Waited(queued_ns=7_600 * MS, settling_ns=3_400 * MS, nodes=(NodeId(1), NodeId(2)))
    receipt = msgspec.structs.replace(RECEIPT, waited=waited)
    assert shown(capsys, receipt, Output.TABLE).splitlines()[1:3] == [
        "before that, 7600 ms for earlier statements on the same objects",
        "before that, 3400 ms until no node served the state before their last change; node-1, node-2 was last",
    ]
    told = json.loads(shown(capsys, receipt, Output.JSON))
    assert (told["queued_ms"], told["settling_ms"], told["settling"]) == (7600, 3400, ["node-1", "node-2"])


@pytest.mark.parametrize(("changes", "most_ms"), [(1, 8000), (2, 12000)])
def test_each_change_of_leader_adds_the_bound_once_more(
    capsys: pytest.CaptureFixture[str], changes: int, most_ms: int
) -> None:
    receipt = msgspec.structs.replace(RECEIPT, leader_changes=changes)
    said = f"{changes} later leader(s) continued it: at most {most_ms} ms in all, and the time without a leader"
    assert shown(capsys, receipt, Output.TABLE).splitlines()[1] == said
    told = json.loads(shown(capsys, receipt, Output.JSON))
    assert (told["leader_changes"], told["bound_ms"], told["bound_all_leaders_ms"]) == (changes, 4000, most_ms)
