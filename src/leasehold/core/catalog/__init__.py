"""The catalog: all that the meta storage says, typed, at one revision, and how it follows changes."""
