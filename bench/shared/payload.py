"""Record values that compress about as log lines do, the same in every run and on every system.

As `client/payload.c` makes them: words of a fixed list, and one token in six a number.
"""

from __future__ import annotations

import functools
import random
import string

SEED = 0x746F7770617468
TEXT_BYTES = 8 << 20
WORDS = 512
WORD_BYTES_MIN, WORD_BYTES_MAX = 2, 12
NUMBER_MAX = 100_000_000
TOKENS_PER_NUMBER = 6


@functools.lru_cache(maxsize=1)
def text() -> bytes:
    """The text that values are cut from."""
    source = random.Random(SEED)
    words = [
        "".join(
            source.choices(string.ascii_lowercase, k=source.randint(WORD_BYTES_MIN, WORD_BYTES_MAX))
        )
        for _ in range(WORDS)
    ]
    tokens: list[str] = []
    size_bytes = 0
    while size_bytes <= TEXT_BYTES:
        is_number = source.randrange(TOKENS_PER_NUMBER) == 0
        token = str(source.randrange(NUMBER_MAX)) if is_number else source.choice(words)
        tokens.append(token)
        size_bytes += len(token) + 1
    return " ".join(tokens).encode()[:TEXT_BYTES]


@functools.lru_cache(maxsize=4)
def values(record_bytes: int) -> tuple[bytes, ...]:
    """Values of this size, to be sent in turn: together they are the text."""
    whole = text()
    last = len(whole) - record_bytes
    return tuple(whole[at : at + record_bytes] for at in range(0, last + 1, record_bytes))
