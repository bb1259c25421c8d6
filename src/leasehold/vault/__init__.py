"""A node's durable local state: its identity and its projection of the meta storage."""
