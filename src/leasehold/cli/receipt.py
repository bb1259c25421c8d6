"""How a receipt is shown, what to do next, and the exit code for its outcome."""

from collections.abc import Mapping

from leasehold.cli.output import Output, milliseconds, note, say, show_json, show_table
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import Outcome, Waited
from leasehold.errors import ExitCode
from leasehold.ids import STRANGERS, STRANGERS_NAME, NodeId


def show_receipt(receipt: Receipt, names: Mapping[NodeId, str], output: Output) -> ExitCode:
    """Shows a receipt on stdout, and what to do next on stderr. `names` has the names of nodes."""

    def named(node: NodeId) -> str:
        return STRANGERS_NAME if node == STRANGERS else names.get(node, str(node))

    settled = [
        {"node": named(one.node), "how": one.how.value, "ms": milliseconds(one.after_ns)} for one in receipt.settled
    ]
    waited = receipt.waited or Waited()
    settling = [named(one) for one in waited.nodes]
    pending, cleaning = [named(one) for one in receipt.pending], [named(one) for one in receipt.cleaning]
    bound_all_leaders_ms = milliseconds((receipt.leader_changes + 1) * receipt.bound_ns)
    if output is Output.JSON:
        show_json(
            {
                "statement": receipt.text,
                "statement_id": receipt.statement_id,
                "revision": receipt.revision,
                "outcome": receipt.outcome.value,
                "elapsed_ms": milliseconds(receipt.elapsed_ns),
                "bound_ms": milliseconds(receipt.bound_ns),
                "settled": settled,
                "pending": pending,
                "cleaning": cleaning,
                "notes": list(receipt.notes),
                "leader_changes": receipt.leader_changes,
                "bound_all_leaders_ms": bound_all_leaders_ms,
                "queued_ms": milliseconds(waited.queued_ns),
                "settling_ms": milliseconds(waited.settling_ns),
                "settling": settling,
            }
        )
    else:
        at = "" if receipt.revision is None else f" at revision {receipt.revision}"
        within = f"{milliseconds(receipt.elapsed_ns):.0f} ms of at most {milliseconds(receipt.bound_ns):.0f}"
        say(f"{receipt.outcome.value}{at} in {within}")
        if waited.queued_ns:
            say(f"before that, {milliseconds(waited.queued_ns):.0f} ms for earlier statements on the same objects")
        if settling:
            until = f"no node served the state before their last change; {', '.join(settling)} was last"
            say(f"before that, {milliseconds(waited.settling_ns):.0f} ms until {until}")
        if receipt.leader_changes:
            later = f"{receipt.leader_changes} later leader(s) continued it"
            say(f"{later}: at most {bound_all_leaders_ms:.0f} ms in all, and the time without a leader")
        for one in receipt.notes:
            say(f"note: {one}")
        if settled or not pending:
            show_table(["node", "how", "ms"], [list(one.values()) for one in settled])
        if cleaning:
            say(f"{', '.join(cleaning)} still to delete files; SHOW PROCEDURES shows the progress")
    return _next(receipt.outcome, ", ".join(pending))


def _next(outcome: Outcome, pending: str) -> ExitCode:
    if outcome is Outcome.COMMITTED_PENDING:
        note(f"pending: {pending} may serve the old state until its lease ends; the change itself is committed")
        note("hint: `leasehold status` shows that node; the next statement on the same objects waits for it")
        return ExitCode.PENDING
    if outcome is Outcome.ROLLED_BACK:
        waited = f"it waited for {pending}; " if pending else ""
        note(f"rolled back: {waited}nothing changed")
        note("hint: run it again with a longer --timeout; `leasehold status` shows the state of the nodes")
        return ExitCode.REFUSED
    return ExitCode.DONE
