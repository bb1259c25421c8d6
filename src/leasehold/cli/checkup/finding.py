"""What a check found."""

import msgspec


class HostFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the answer. `hint` says what to do, where something is wrong."""

    check: str
    ok: bool
    text: str
    hint: str = ""


def fine(check: str, text: str) -> HostFinding:
    return HostFinding(check=check, ok=True, text=text)


def wrong(check: str, text: str, hint: str) -> HostFinding:
    return HostFinding(check=check, ok=False, text=text, hint=hint)
