"""The certificates of a cluster's processes and users: their names, their files, their authority, their checks.

`names` and `files` load nothing large. All other modules need `cryptography`: import them only where a certificate is
made or checked.
"""
