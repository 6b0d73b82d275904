"""A broker that runs while something is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from bench.systems import System

Y = TypeVar("Y", bound=System)


@contextlib.contextmanager
def started(system: Y) -> Iterator[Y]:
    """A broker that runs while the context lasts, without the record that `System.start`
    produces."""
    try:
        system.format()
        system.process.start()
        yield system
    finally:
        system.kill()
