"""Bounds of messages and records, and the versions of formats and protocol."""

from typing import Final

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
VALUE_BYTES_MAX: Final = 1024 * 1024
KEY_BYTES_MAX: Final = 1024
FORMAT_VERSION: Final = 1
"""Of a data directory; a newer one is refused."""
PROTOCOL_VERSION: Final = 1
PROTOCOL_VERSION_MIN: Final = 1
FAILURE_CHARACTERS_MAX: Final = 4_096
