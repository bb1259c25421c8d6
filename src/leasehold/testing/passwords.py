"""Password hashes for the simulator: as quick as they are worthless, and without threads."""

import hashlib


class QuickPasswords:
    """Implements `wire.ports.Passwords`."""

    async def hashed(self, password: str) -> str:
        return hashlib.sha256(password.encode()).hexdigest()

    async def matches(self, password_hash: str | None, password: str) -> bool:
        return password_hash == await self.hashed(password)
