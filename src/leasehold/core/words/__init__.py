"""What every protocol speaks in: messages, records, statements, keys, values and their bytes."""
