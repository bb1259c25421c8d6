"""Faults for as long as asked: simulated clusters, seed after seed, and clusters of real processes."""
