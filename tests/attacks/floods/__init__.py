"""Floods, at the doors of a cluster with TLS."""
