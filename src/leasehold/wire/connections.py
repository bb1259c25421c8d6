"""How this project's gRPC servers treat connections: each is bounded while its peer is silent."""

from leasehold.limits import CONNECTION_IDLE_NS, HANDSHAKE_NS, MILLISECOND_NS


def server_connection_options(idle_ns: int = CONNECTION_IDLE_NS) -> tuple[tuple[str, int], ...]:
    """Options of gRPC; a connection without a call is closed after `idle_ns`."""
    return (
        # A second server on one port must fail, not share it.
        ("grpc.so_reuseport", 0),
        # A peer that connects and says nothing, or nothing of HTTP/2.
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_NS // MILLISECOND_NS),
        # A peer that has no call under way. gRPC's clients connect again by themselves.
        ("grpc.max_connection_idle_ms", idle_ns // MILLISECOND_NS),
        # Bit 0 is "as it is". A compressed message is refused by its header, before it is decompressed.
        ("grpc.compression_enabled_algorithms_bitset", 1),
    )
