"""Replicas at the leader: `reports` of nodes about their files, `repair` of buckets that lack a replica."""
