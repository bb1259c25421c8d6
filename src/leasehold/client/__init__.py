"""The Python client: SQL, scans and appends."""
