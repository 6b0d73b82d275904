"""Random, cut and damaged frames against a whole broker: it answers or closes, and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faults.fuzz.broker_rig import FuzzBroker, check_answer
from tests.faults.fuzz.mutate import Damage, damaged, damages
from tests.faults.fuzz.seeds import CORRELATION_ID, Seed, seeds

from towpath.kafka.apis.registry import APIS

pytestmark = pytest.mark.fuzz

SEEDS = seeds()
PRODUCE = 0
HEADER_BYTES = 18
"""The length, the header and the client id of a seed."""
BOUNDED = settings(
    max_examples=1500,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Runner:
    """Talks to one broker from tests that are no coroutines."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._broker = FuzzBroker()

    def send(self, data: bytes, pieces: int = 1) -> bytes:
        return self._runner.run(self._broker.send(data, pieces))

    def close(self) -> None:
        self._runner.run(self._broker.close())
        self._runner.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


def test_seeds_cover_every_api_and_version() -> None:
    covered = {(seed.api.key, seed.version) for seed in SEEDS}
    served = {(a.key, v) for a in APIS.values() for v in range(a.min_version, a.max_version + 1)}
    assert covered == served


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.api.name}-{seed.version}")
def test_valid_requests_are_answered(broker: Runner, seed: Seed) -> None:
    sent = broker.send(seed.frame)
    check_answer(seed, sent)
    assert sent or seed.api.key == PRODUCE, "only a Produce with acks=0 has no answer"


@BOUNDED
@given(seed=st.sampled_from(SEEDS), changes=damages(), pieces=st.sampled_from([1, 1, 2, 50]))
def test_damaged_bodies_in_whole_frames(
    broker: Runner, seed: Seed, changes: list[Damage], pieces: int
) -> None:
    body = damaged(seed.frame[HEADER_BYTES:], changes)
    frame = seed.frame[4:HEADER_BYTES] + body
    check_answer(seed, broker.send(len(frame).to_bytes(4, "big") + frame, pieces))


@BOUNDED
@given(picked=st.lists(st.sampled_from(SEEDS), min_size=1, max_size=3), changes=damages())
def test_damaged_streams_of_frames(
    broker: Runner, picked: list[Seed], changes: list[Damage]
) -> None:
    broker.send(damaged(b"".join(seed.frame for seed in picked), changes))


@BOUNDED
@given(
    key=st.one_of(st.sampled_from(sorted(APIS)), st.integers(-1, 100)),
    version=st.integers(-1, 20),
    rest=st.binary(max_size=300),
)
def test_random_bodies_of_every_api(broker: Runner, key: int, version: int, rest: bytes) -> None:
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    frame = header + CORRELATION_ID.to_bytes(4, "big") + b"\xff\xff" + rest
    broker.send(len(frame).to_bytes(4, "big") + frame)


@BOUNDED
@given(data=st.binary(max_size=2000))
def test_random_bytes(broker: Runner, data: bytes) -> None:
    broker.send(data)
