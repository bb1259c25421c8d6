"""Bounds of certificates."""

from typing import Final

from leasehold.limits.units import MINUTE_NS, SECOND_NS

CERTIFICATE_DAYS: Final = 90
CERTIFICATE_DAYS_MAX: Final = 398
"""As browsers allow for certificates of servers."""
AUTHORITY_DAYS: Final = 3_650
CERTIFICATE_SKEW_NS: Final = MINUTE_NS
"""How long before its issue a certificate begins: the clocks of the machines may differ."""
CERTIFICATE_FILE_BYTES_MAX: Final = 128 * 1024
"""A larger file is refused unread."""
CERTIFICATE_CHAIN_MAX: Final = 8
"""Certificates in the identity file of a bundle: its own, and those of intermediate authorities."""
CHAIN_BYTES_MAX: Final = 8 * 1024
"""Bytes of these certificates as PEM: a handshake has to fit into HANDSHAKE_BYTES_MAX (`limits/http2.py`). Two
certificates with RSA keys of 4,096 bits and some names have 5 KiB."""
CERTIFICATE_ROOTS_MAX: Final = 16
"""Authorities that a bundle trusts."""
CERTIFICATE_RSA_BITS_MIN: Final = 2_048
CERTIFICATE_CURVE_BITS_MIN: Final = 256
CERTIFICATES_SHOWN_MAX: Final = 1_000
"""Issued certificates that `leasehold ca show` lists."""
CERTIFICATE_ENDING_DAYS: Final = 14
"""Before a certificate ends, people are told."""
CERTIFICATE_FILES_LOOK_NS: Final = 10 * SECOND_NS
"""How often a process looks whether its certificate was replaced."""
CERTIFICATE_END_TOLD_NS: Final = MINUTE_NS
"""How often a process says that its certificate has ended."""
REVOKED_CERTIFICATES_MAX: Final = 10_000
CALLERS_CACHED_MAX: Final = 4_096
"""Certificates of callers that a process keeps parsed."""
