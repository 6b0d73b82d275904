"""Randomness by name: each part draws from a stream of its own, so that one more draw in one part
does not change what the others do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance(random.Random):
    """A stream of random numbers that depends on a seed and a name alone."""

    def __init__(self, seed: int, name: str) -> None:
        # A string is hashed with SHA-512 by `random`, not with the process's own hash.
        super().__init__(f"{seed}/{name}")
        self._seed_number = seed
        self._name = name

    def child(self, name: str) -> Chance:
        """An independent stream."""
        return Chance(self._seed_number, f"{self._name}/{name}")

    def happens(self, probability: float) -> bool:
        """True with this probability; draws nothing if it is 0."""
        return probability > 0.0 and self.random() < probability

    def pick(self, *options: T) -> T:
        """One of the arguments."""
        return options[int(self.random() * len(options))]

    def some_of(self, options: Sequence[T], probability: float) -> list[T]:
        """Each option with this probability, in the order given."""
        return [option for option in options if self.random() < probability]
