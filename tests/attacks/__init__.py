"""Floods and forgeries by a stranger, or by a user with few rights, against real processes."""
