"""Bounds of messages and records, and the versions of formats and protocol."""

from typing import Final

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
VALUE_BYTES_MAX: Final = 1024 * 1024
KEY_BYTES_MAX: Final = 1024
ASKED_MAX: Final = 1_000
"""Names, conditions or other words in a list of a request. A longer one is not decoded: an empty word is a byte of a
message, and takes many in memory. Of a shorter one an error can say what is wrong with it."""
ASKED_SEGMENTS_MAX: Final = 10_000
"""The same of the segments that a commit adds or replaces."""
ASKED_VALUES_MAX: Final = 20_000
"""The same of the values of a condition."""
FORMAT_VERSION: Final = 1
"""Of a data directory; a newer one is refused."""
PROTOCOL_VERSION: Final = 1
PROTOCOL_VERSION_MIN: Final = 1
FAILURE_CHARACTERS_MAX: Final = 4_096
