"""The real source of random bits: the one place that draws them."""

import secrets


class SystemEntropy:
    """Implements `wire.ports.Entropy` from the operating system's generator."""

    def hex_128(self) -> str:
        return secrets.token_hex(16)
