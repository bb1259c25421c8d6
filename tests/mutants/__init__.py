"""Deliberate breaks of the production code, and the proof that each of them is caught (`make mutants`)."""
