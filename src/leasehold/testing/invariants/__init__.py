"""One invariant of the design per file, checked after every simulated step."""
