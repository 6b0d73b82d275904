"""Compares what was played with what was recorded, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.integration.groups_golden.rendering import Json

ABSENT: Final = "<absent>"


@dataclass(frozen=True)
class Found:
    """One value that is not as recorded."""

    step: int
    request: str
    """`JoinGroup v9`"""
    path: str
    """`answer.members[0].error_code`"""
    recorded: Json
    played: Json

    def __str__(self) -> str:
        return (
            f"step {self.step}, {self.request}: {self.path}: "
            f"Kafka {self.recorded!r}, here {self.played!r}"
        )


def compare(recorded: Json, played: Json) -> list[Found]:
    """Every value that differs, in order."""
    found: list[Found] = []
    for number in range(max(len(recorded["steps"]), len(played["steps"]))):
        ours, theirs = _step(played, number), _step(recorded, number)
        request = theirs.get("request") or ours.get("request")
        found += [Found(number, request, *where) for where in _walk("", theirs, ours)]
    return found


def _step(run: Json, number: int) -> Json:
    steps = run["steps"]
    return steps[number] if number < len(steps) else {}


def _walk(path: str, recorded: Json, played: Json) -> Iterator[tuple[str, Json, Json]]:
    if isinstance(recorded, dict) and isinstance(played, dict):
        for name in [*recorded, *(name for name in played if name not in recorded)]:
            inner = f"{path}.{name}" if path else name
            yield from _walk(inner, recorded.get(name, ABSENT), played.get(name, ABSENT))
    elif isinstance(recorded, list) and isinstance(played, list):
        for number in range(max(len(recorded), len(played))):
            yield from _walk(f"{path}[{number}]", _item(recorded, number), _item(played, number))
    elif recorded != played or type(recorded) is not type(played):
        yield path, recorded, played


def _item(values: list[Json], number: int) -> Json:
    return values[number] if number < len(values) else ABSENT
