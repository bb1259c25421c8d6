"""Leasehold: replicated tables on the local disks of a few machines, for Spark."""
