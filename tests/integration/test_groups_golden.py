"""Consumer groups answer as Apache Kafka 4.1 does, field by field.

The sequences of `groups_golden/sequences` were recorded on a real Kafka (`groups_golden/record.py`)
and are played here on Towpath; `TOWPATH_TEST_PEER=kafka` plays them on a new Kafka, which shows
that the recordings do not depend on chance. `groups_golden/differences.py` has the decided
differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.integration.conftest import PEER
from tests.integration.groups_golden.brokers import GoldenBroker, start_kafka, start_towpath
from tests.integration.groups_golden.comparing import compare
from tests.integration.groups_golden.differences import DIFFERENCES, missing, undecided
from tests.integration.groups_golden.recordings import RECORDED_DIR, read_recording, recording_file
from tests.integration.groups_golden.registry import Sequence, all_sequences

SEQUENCES = all_sequences()
SHOWN_MAX = 40


@pytest.fixture(scope="module")
def golden_broker(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], GoldenBroker]]:
    """The broker of a profile, started when it is first asked for."""
    running: dict[str, GoldenBroker] = {}
    start = start_kafka if PEER == "kafka" else start_towpath

    def broker(profile: str) -> GoldenBroker:
        if profile not in running:
            running[profile] = start(tmp_path_factory.mktemp(profile), profile)
        return running[profile]

    yield broker
    for one in running.values():
        one.stop()


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.name)
def test_answers_as_recorded(
    golden_broker: Callable[[str], GoldenBroker], sequence: Sequence
) -> None:
    broker = golden_broker(sequence.profile)
    log_start = broker.server.process.log_size_bytes()
    try:
        played = broker.play(sequence)
    finally:
        print(broker.server.process.log_tail(log_start))
    found = compare(read_recording(sequence), played)
    if PEER == "kafka":
        unexplained, absent = found, []
    else:
        unexplained, absent = undecided(sequence.name, found), missing(sequence.name, found)
    assert not unexplained, "\n".join(map(str, unexplained[:SHOWN_MAX]))
    assert not absent, f"decided differences that did not occur: {absent}"


def test_recordings_and_sequences_belong_together() -> None:
    wanted = {recording_file(sequence) for sequence in SEQUENCES}
    assert set(RECORDED_DIR.glob("*.json")) == wanted
    for sequence in SEQUENCES:
        assert read_recording(sequence)["about"] == sequence.about


def test_differences_name_sequences() -> None:
    names = {sequence.name for sequence in SEQUENCES}
    for difference in DIFFERENCES:
        assert difference.sequence in names
        assert difference.reason
