"""The agent: a node's identity, view and lease, on one event loop."""
