"""All that a member knows, as datagrams."""

import msgspec

from leasehold.core.swim.codec import CLAIMS_HEADER_BYTES, PAYLOAD_BYTES_MAX, encoded
from leasehold.core.swim.messages import MemberClaim, MemberPage
from leasehold.limits.swim import SWIM_SYNC_PAGES_MAX


def pages(sender: str, claims: list[MemberClaim], *, answer: bool) -> list[MemberPage]:
    """The claims in their order, in at most `SWIM_SYNC_PAGES_MAX` pages; the first asks for an answer, if any does."""
    empty = MemberPage(sender=sender, answer=answer)
    room_bytes = full_bytes = PAYLOAD_BYTES_MAX - len(encoded(empty)) - CLAIMS_HEADER_BYTES
    packed: list[list[MemberClaim]] = [[]]
    for claim in claims:
        size_bytes = len(encoded(claim))
        if size_bytes > room_bytes:
            packed.append([])
            room_bytes = full_bytes
        packed[-1].append(claim)
        room_bytes -= size_bytes
    return [
        msgspec.structs.replace(empty, claims=tuple(some), answer=answer and number == 0)
        for number, some in enumerate(packed[:SWIM_SYNC_PAGES_MAX])
    ]
