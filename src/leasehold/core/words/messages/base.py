"""The roots of all messages."""

from typing import Annotated, TypeAlias

import msgspec

from leasehold.ids import LoginToken, ObjectId, Term
from leasehold.limits.flight import TICKET_WORD_CHARACTERS_MAX
from leasehold.limits.statements import QUERY_TABLES_MAX

Through: TypeAlias = Annotated[tuple[ObjectId, ...], msgspec.Meta(max_length=QUERY_TABLES_MAX)]
"""The views that a table is read through."""
Word = msgspec.Meta(max_length=TICKET_WORD_CHARACTERS_MAX)
"""Of an id or a secret in what is sent to a node."""


class BaseMessage(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=True, omit_defaults=True
):
    """Base of every message. A field that came later has a default, which is not sent."""


class ClientRequest(BaseMessage, frozen=True, kw_only=True):
    """A client's request to a coordinator; `login` names the user, where users exist."""

    login: LoginToken | None = None


class Failure(BaseMessage, frozen=True, kw_only=True, tag="failure/1"):
    """A definite or indefinite error as it travels."""

    code: str
    text: str
    hint: str
    definite: bool
    leader: str = ""
    """The address of the leader that a coordinator saw last, where it does not lead itself."""
    term: Term = Term(0)
    """That of this leader."""
    cause: str = ""
    """Of a coordinator that does not lead: the code of what keeps all of them from it, if it knows."""
