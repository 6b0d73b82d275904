"""Spark sessions that the parts start."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from bench.read.scale import Scale
from bench.shared.part import Context
from bench.shared.session import Session


@contextlib.contextmanager
def user_spark(context: Context[Scale], style: str, name: str) -> Iterator[Session]:
    """A user's session in a new directory of this name, once it is up."""
    directory = context.make_directory(name)
    arguments, log = [str(directory), style], directory / "spark.log"
    with Session("bench.read.user_spark", arguments, log) as session:
        session.answer()
        yield session
