"""Segments on local disk, and the serve log."""
