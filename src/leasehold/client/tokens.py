"""Tokens of users: made here, so that a cluster is told only their hash."""

from leasehold.core.membership.identity import hash_secret
from leasehold.core.words.durations import parse_duration, render_duration
from leasehold.error_codes import ErrorCode
from leasehold.errors import Refused
from leasehold.ids import IDENTIFIER, UserToken
from leasehold.wire.entropy import SystemEntropy


def new_user_token() -> UserToken:
    entropy = SystemEntropy()
    return UserToken(f"lht_{entropy.hex_128()}{entropy.hex_128()}")


def create_token_text(token: UserToken, name: str, user: str, expires: str | None) -> str:
    """The statement that makes a token known. Raises `Refused` (BAD_IDENTIFIER, BAD_DURATION)."""
    for one in (name, user):
        if IDENTIFIER.fullmatch(one) is None:
            text = f"{one[:80]!r} can't be a name"
            raise Refused(text, code=ErrorCode.BAD_IDENTIFIER, hint="use letters, digits and _, no digit first")
    until = "" if expires is None else f" EXPIRES '{render_duration(parse_duration(expires))}'"
    return f"CREATE TOKEN `{name}` FOR USER `{user}` HASH '{hash_secret(token).hex()}'{until}"
