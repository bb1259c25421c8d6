"""Tokens and ids of a simulated run."""

from random import Random  # noqa: TID251 a type alone: the generator is the caller's


class SeededEntropy:
    """Implements `wire.ports.Entropy` from the seed of a run."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def hex_128(self) -> str:
        """The next 128 bits of the seed."""
        return f"{self._random.getrandbits(128):032x}"
