"""Plays every sequence on a real Apache Kafka and writes down what it answered.

    python -m tests.integration.groups_golden.record [name or family ...]

Without names everything is recorded, and recordings of sequences that are gone are deleted. What
Kafka says is the truth: after a change of a recording, the broker has to follow, or the difference
needs an entry in `differences.py`.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.integration.groups_golden.brokers import GoldenBroker, start_kafka
from tests.integration.groups_golden.recordings import (
    RECORDED_DIR,
    recording_file,
    write_recording,
)
from tests.integration.groups_golden.registry import Sequence, all_sequences


def record(sequences: list[Sequence]) -> list[str]:
    """Record these sequences on brokers that are started for it; the names of those that failed,
    whose recordings stay as they were."""
    failed: list[str] = []
    for profile in sorted({sequence.profile for sequence in sequences}):
        with (
            tempfile.TemporaryDirectory() as directory,
            running(Path(directory), profile) as broker,
        ):
            due = [sequence for sequence in sequences if sequence.profile == profile]
            failed += [sequence.name for sequence in due if not _recorded(broker, sequence)]
    return failed


@contextlib.contextmanager
def running(directory: Path, profile: str) -> Iterator[GoldenBroker]:
    """An Apache Kafka that is stopped in the end."""
    broker = start_kafka(directory, profile)
    try:
        yield broker
    finally:
        broker.stop()


def _recorded(broker: GoldenBroker, sequence: Sequence) -> bool:
    try:
        played = broker.play(sequence)
    except AssertionError:
        traceback.print_exc()
        print(f"{sequence.family}: {sequence.name}: FAILED", flush=True)
        return False
    changed = write_recording(sequence, played)
    print(
        f"{sequence.family}: {sequence.name}: {'recorded' if changed else 'unchanged'}", flush=True
    )
    return True


def main(names: list[str]) -> None:
    """Record what was named, or everything."""
    known = all_sequences()
    chosen = [s for s in known if not names or s.name in names or s.family in names]
    if not chosen:
        sys.exit(f"no such sequence: {' '.join(names)}")
    if not names:
        wanted = {recording_file(sequence) for sequence in known}
        for path in RECORDED_DIR.glob("*.json"):
            if path not in wanted:
                path.unlink()
    if failed := record(chosen):
        sys.exit(f"not recorded: {' '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
