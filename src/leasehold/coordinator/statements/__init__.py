"""Statements at the leader: parsed, queued, run, and shown while they run."""
