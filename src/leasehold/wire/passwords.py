"""Real password hashes: argon2id, on threads, since one costs tens of milliseconds (RFC 9106)."""

import asyncio
import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from leasehold.errors import Corrupt
from leasehold.limits.people import PASSWORD_LANES, PASSWORD_MEMORY_KIB, PASSWORD_TIME_COST, PASSWORDS_AT_ONCE

SALT_BYTES: Final = 16
HASH_BYTES: Final = 32


def _unfilled(size_bytes: int) -> str:
    return base64.b64encode(bytes(size_bytes)).decode().rstrip("=")


NOBODY: Final = (
    f"$argon2id$v=19$m={PASSWORD_MEMORY_KIB},t={PASSWORD_TIME_COST},p={PASSWORD_LANES}"
    f"${_unfilled(SALT_BYTES)}${_unfilled(HASH_BYTES)}"
)
"""A hash of no known password; a check against it takes as long as against any other."""


class Argon2Passwords:
    """Implements `wire.ports.Passwords`."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(
            time_cost=PASSWORD_TIME_COST,
            memory_cost=PASSWORD_MEMORY_KIB,
            parallelism=PASSWORD_LANES,
            hash_len=HASH_BYTES,
            salt_len=SALT_BYTES,
        )
        # A check runs to its end even if its client gives up, so the number of threads is what bounds them.
        self._threads = ThreadPoolExecutor(PASSWORDS_AT_ONCE, thread_name_prefix="password")

    async def hashed(self, password: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """As `Passwords.matches`. Raises `Corrupt` for a hash that argon2 did not write."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._matches, password_hash or NOBODY, password
        )

    def _matches(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except VerifyMismatchError:
            return False
        except (VerificationError, InvalidHashError) as error:
            raise Corrupt("a stored password hash is damaged", hint="ALTER USER .. PASSWORD sets another") from error
