"""Benchmarks: every figure beside its limit or peer, taken in turn in the same run."""
