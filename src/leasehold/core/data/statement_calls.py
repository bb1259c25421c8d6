"""Statements, as a client asks for them: by an id, so that one whose answer is lost happens once.

A statement that has to wait is asked for by its id again. Rows that do not fit into one message come in pages, all of
one catalog.
"""

from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import TypeAlias

from leasehold.core.data.asking import Asking
from leasehold.core.data.coordinator_client import QUESTION_AGAIN, CoordinatorClient, Deadline
from leasehold.core.words import messages
from leasehold.core.words.messages import Message, Receipt, Rows, WaitingFor
from leasehold.errors import NotLeader, OutcomeUnknown, Unreachable, unexpected_answer
from leasehold.ids import StatementId, Term
from leasehold.limits.clients import CONNECT_TIMEOUT_NS, LATE_ANSWER_NS, STATEMENT_RESOLVE_NS

OnWait: TypeAlias = Callable[[WaitingFor], None]
"""Gets the nodes that a statement waits for."""


async def run_statement(
    client: CoordinatorClient,
    text: str,
    statement: StatementId,
    asking: Asking,
    *,
    has_timeout: bool = False,
    may_be_sent: bool = False,
    on_wait: OnWait | None = None,
) -> Receipt | Rows:
    """Asks for a statement until it is known how it ended.

    The time of `asking` starts again whenever a coordinator says for which nodes the statement waits. With
    `has_timeout` coordinators end it at the first deadline: a rollback waits for nodes after that. Then it is asked for
    LATE_ANSWER_NS longer.
    `may_be_sent`: an earlier call may have sent it. Raises the refusal, `Unreachable` if no coordinator has taken it,
    and `OutcomeUnknown`.
    """
    hint = f"ask again with the same statement id, {statement}: it is never run twice"
    unknown = partial(OutcomeUnknown, hint=hint, statement_id=statement)
    if client.cluster_id is None or client.term is None:
        who = client.question(messages.WhoAreYou(), messages.ClusterFacts, CONNECT_TIMEOUT_NS)
        known = unknown if may_be_sent else None  # to ask who leads changes nothing
        facts = await client.until_answered(who, asking, unknown=known, may_be_taken=may_be_sent, again=QUESTION_AGAIN)
        client.cluster_id, client.term = facts.cluster_id, facts.term
    cluster_id, ends = client.cluster_id, client.deadline(asking.for_ns)

    async def ask(address: str, deadline: Deadline) -> Receipt | Rows:
        def waits(waiting: WaitingFor) -> None:
            deadline.renew()
            asking.answered()
            if on_wait is not None:
                on_wait(waiting)

        while True:
            # Each leader counts from when it is asked.
            left_ns = ends.within(asking.for_ns) if has_timeout else None
            term = client.term
            request = messages.Execute(
                cluster_id=cluster_id, statement=statement, text=text, timeout_ns=left_ns, term=term
            )
            try:
                return await ask_statement(client, address, request, deadline, waits)
            except NotLeader as error:
                if error.leader or term is None or error.term <= term:
                    raise
                client.term = Term(error.term)  # it leads, but another term

    late_ns = LATE_ANSWER_NS if has_timeout else 0
    return await client.until_answered(ask, asking, unknown=unknown, may_be_taken=may_be_sent, late_ns=late_ns)


async def ask_statement(
    client: CoordinatorClient,
    address: str,
    request: messages.Execute | messages.AskOutcome,
    deadline: Deadline,
    on_wait: OnWait | None = None,
) -> Receipt | Rows:
    """Asks one coordinator until it has answered. While a statement waits, it is asked for by its id again and again:
    so a leader that hangs is noticed. The rows of a SHOW come in pages, and are asked for so in the first place."""
    answer: Receipt | Rows | None = None
    while answer is None and (isinstance(request, messages.AskOutcome) or not _is_show(request.text)):
        message = await client.call(address, request, deadline, STATEMENT_RESOLVE_NS)
        answer = _heard(client, message, on_wait)
        # Whoever waits for it has taken it, and may decline the next question since the leadership has ended.
        deadline.may_be_taken = deadline.may_be_taken or answer is None
    if isinstance(answer, Receipt) or (answer is not None and not answer.more):
        return answer

    async def all_pages(within_ns: int) -> Receipt | Rows:
        pages: list[Rows] = []
        async with aclosing(client.calls.stream(address, request, within_ns)) as answers:
            async for message in answers:
                answer = _heard(client, message, on_wait)
                if isinstance(answer, Receipt):
                    return answer
                if answer is not None:
                    pages.append(answer)
                    if not answer.more:
                        rows = tuple(row for page in pages for row in page.rows)
                        return Rows(columns=answer.columns, rows=rows, revision=answer.revision)
        raise Unreachable("the answer ended too early", hint="ask again with the same statement id")

    return await client.unless_silent(address, deadline, STATEMENT_RESOLVE_NS, all_pages)


def _is_show(text: str) -> bool:
    return text.lstrip()[:4].upper() == "SHOW"


def _heard(client: CoordinatorClient, message: Message, on_wait: OnWait | None) -> Receipt | Rows | None:
    match message:
        case WaitingFor():
            if on_wait is not None:
                on_wait(message)
            return None
        case Receipt() | Rows():
            client.known.heard(message)
            return message
        case _:
            raise unexpected_answer(message)
