"""How a statement ended and what it waited for, in receipts and log lines."""

import msgspec

from leasehold.core.catalog.catalog import Catalog
from leasehold.core.ddl.procedure import leader_changes
from leasehold.core.replicas.dropped import cleaning
from leasehold.core.words.messages import Receipt
from leasehold.core.words.records import BarrierReceipt, Outcome, StatementRecord, Waited
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import Revision, StatementId
from leasehold.limits.units import MILLISECOND_NS


def receipt(record: StatementRecord, catalog: Catalog) -> Receipt:
    """How a statement ended, as its record says; what nodes still have to delete, as of now."""
    return Receipt(
        statement_id=record.id,
        text=record.text,
        revision=record.revision,
        outcome=record.outcome,
        elapsed_ns=record.elapsed_ns,
        bound_ns=record.bound_ns,
        settled=record.barriers[-1].settled if record.barriers else (),
        pending=record.pending,
        cleaning=cleaning(record, catalog) if record.outcome is Outcome.COMMITTED else (),
        notes=record.notes if record.outcome is not Outcome.ROLLED_BACK else (),
        leader_changes=leader_changes(record),
        waited=record.waited,
    )


def nothing_to_do(
    statement: StatementId, text: str, *, revision: Revision, elapsed_ns: int, bound_ns: int, waited: Waited | None
) -> Receipt:
    """The receipt of a statement that changed nothing, since all is as it asks for."""
    return Receipt(
        statement_id=statement,
        text=text,
        revision=revision,
        outcome=Outcome.COMMITTED,
        elapsed_ns=elapsed_ns,
        bound_ns=bound_ns,
        settled=(),
        pending=(),
        cleaning=(),
        waited=waited,
    )


def timed_out(because: str) -> Refused:
    """The refusal of a statement whose timeout passed."""
    return Refused(
        f"its timeout passed before it began: {because}",
        code=ErrorCode.TIMED_OUT,
        hint="nothing changed; run it again with a longer timeout; SHOW PROCEDURES shows what runs",
    )


def settled_as_well(waited: Waited | None, settling_ns: int, barrier: BarrierReceipt) -> Waited:
    """What a statement waited for, with this barrier as well: a CASCADE may wait for several."""
    waited = waited or Waited()
    return msgspec.structs.replace(
        waited,
        settling_ns=waited.settling_ns + settling_ns,
        nodes=tuple(dict.fromkeys((*waited.nodes, *(one.node for one in barrier.settled[-1:])))),
    )


def overrun(bound_ns: int, *, published_after_ns: int, settled_after_ns: int) -> str:
    """Where the time of a statement went that took longer than its bound."""
    return (
        f"over its bound of {bound_ns // MILLISECOND_NS} ms: "
        f"its change was durable after {published_after_ns // MILLISECOND_NS} ms, "
        f"its barrier had proceeded after {settled_after_ns // MILLISECOND_NS} ms"
    )
