"""Nodes at the leader: registration, sessions, leases, the logical topology, removal."""
