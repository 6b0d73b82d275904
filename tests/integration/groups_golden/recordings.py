"""The files of recorded answers: JSON with a few lines per step, so that they can be read."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.groups_golden.registry import Sequence
from tests.integration.groups_golden.rendering import Json

RECORDED_DIR = Path(__file__).parent / "recorded"


def recording_file(sequence: Sequence) -> Path:
    """Where the recording of a sequence lies."""
    return RECORDED_DIR / f"{sequence.name}.json"


def read_recording(sequence: Sequence) -> Json:
    """What Kafka answered; a sequence without a recording is an error."""
    return json.loads(recording_file(sequence).read_text(encoding="utf-8"))


def write_recording(sequence: Sequence, played: Json) -> bool:
    """Write a recording; whether that changed anything."""
    text = as_text(played)
    path = recording_file(sequence)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    RECORDED_DIR.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True


def as_text(played: Json) -> str:
    """A line for what was asked by whom, one for its fields, one for the answer."""
    head = [f' "{name}": {_line(value)},' for name, value in played.items() if name != "steps"]
    steps = ",\n".join(_step(step) for step in played["steps"])
    return "\n".join(["{", *head, ' "steps": [', steps, " ]", "}"]) + "\n"


def _step(step: Json) -> str:
    parts = [f'"by": {_line(step["by"])}, "request": {_line(step["request"])}']
    parts += [f'"{name}": {_line(step[name])}' for name in step if name not in ("by", "request")]
    return "  {" + ",\n   ".join(parts) + "}"


def _line(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
