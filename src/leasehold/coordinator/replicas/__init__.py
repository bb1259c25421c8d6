"""Replicas at the leader: what nodes report of their files, and which buckets need another replica."""
