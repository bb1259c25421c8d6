"""What a leader does behind all statements: receipts, history, expiry, checks."""
