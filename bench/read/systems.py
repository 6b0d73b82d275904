"""Brokers and Spark sessions that the parts start."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bench.read.scale import Scale
from bench.shared.part import Context
from bench.shared.session import Session
from bench.systems import System


@contextlib.contextmanager
def started(system: System) -> Iterator[System]:
    """A broker that runs while the context lasts, without the record that `System.start`
    produces."""
    try:
        system.format()
        system.process.start()
        yield system
    finally:
        system.kill()


@contextlib.contextmanager
def user_spark(context: Context[Scale], style: str, name: str) -> Iterator[Session]:
    """A user's session in a new directory of this name, once it is up."""
    directory = context.make_directory(name)
    arguments, log = [str(directory), style], directory / "spark.log"
    with Session("bench.read.user_spark", arguments, log) as session:
        session.answer()
        yield session
