"""Requests of people to a leader: `logins`, and the `overview` of the cluster (SHOW, status)."""
