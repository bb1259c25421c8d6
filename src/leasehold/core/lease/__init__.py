"""The lease: the node's side, the leader's side, the barrier between them, and who leads."""
