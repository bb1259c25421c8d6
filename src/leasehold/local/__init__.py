"""Clusters on this machine: up, down, chaos."""
