"""Reads frames of HTTP/2."""

from leasehold.wire.http2.frames import PREFIX


def frames_in(content: bytes) -> list[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each."""
    found: list[tuple[int, int, int, bytes]] = []
    while content:
        high, low, kind, flags, number = PREFIX.unpack_from(content)
        end = PREFIX.size + (high << 8 | low)
        assert len(content) >= end
        found.append((kind, flags, number, content[PREFIX.size : end]))
        content = content[end:]
    return found
