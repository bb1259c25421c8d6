"""The roots of all messages."""

import msgspec

from leasehold.ids import LoginToken


class BaseMessage(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="t", forbid_unknown_fields=True, omit_defaults=True
):
    """Base of every message. A field that came later has a default, which is not sent."""


class ClientRequest(BaseMessage, frozen=True, kw_only=True):
    """What a client asks a coordinator; `login` says who he is, where users exist."""

    login: LoginToken | None = None


class Failure(BaseMessage, frozen=True, kw_only=True, tag="failure/1"):
    """A definite or indefinite error as it travels."""

    code: str
    text: str
    hint: str
    definite: bool
