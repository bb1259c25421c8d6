"""The source of truth: one contract, several backends."""
