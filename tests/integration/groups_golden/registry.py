"""The scripted sequences, by name. A sequence is a function that plays on a Scene."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.integration.groups_golden.scene import Scene

Play = Callable[[Scene], None]
QUICK, DELAYED, DEFAULTS, TOPIC_IDS = "quick", "delayed", "defaults", "topic_ids"
SEQUENCES_DIR = Path(__file__).parent / "sequences"


@dataclass(frozen=True)
class Sequence:
    """A function, what it shows, and the settings of the broker it plays on (`profiles.py`)."""

    name: str
    about: str
    family: str
    profile: str
    play: Play


_known: dict[str, Sequence] = {}


def sequence(profile: str = QUICK) -> Callable[[Play], Play]:
    """Registers a function as a sequence; its name must be unique, its docstring says why."""

    def register(play: Play) -> Play:
        name = play.__name__
        assert name not in _known, f"two sequences {name}"
        family = play.__module__.rpartition(".")[2]
        about = inspect.cleandoc(play.__doc__ or "").replace("\n", " ")
        assert about, f"{name} has no docstring"
        _known[name] = Sequence(name, about, family, profile, play)
        return play

    return register


def all_sequences() -> list[Sequence]:
    """Every sequence, in a fixed order."""
    for path in sorted(SEQUENCES_DIR.glob("*.py")):
        importlib.import_module(f"tests.integration.groups_golden.sequences.{path.stem}")
    return sorted(_known.values(), key=lambda known: (known.family, known.name))
