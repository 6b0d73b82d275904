"""Random and damaged bytes against every reader of foreign bytes: one known kind of failure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.fuzz.corpus import corpus
from tests.faults.fuzz.mutate import Damage, damaged, damages
from tests.faults.fuzz.targets import TARGETS

pytestmark = pytest.mark.fuzz

CORPUS = corpus()
BOUNDED = settings(max_examples=1500, deadline=None, derandomize=True)


@pytest.mark.parametrize("name", TARGETS)
def test_valid_bytes_are_read(name: str) -> None:
    for data in CORPUS[name]:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_bytes(name: str) -> None:
    @BOUNDED
    @given(data=st.sampled_from(CORPUS[name]), changes=damages(8))
    def check(data: bytes, changes: list[Damage]) -> None:
        TARGETS[name](damaged(data, changes))

    check()


@pytest.mark.parametrize("name", TARGETS)
def test_random_bytes(name: str) -> None:
    @BOUNDED
    @given(data=st.binary(max_size=500))
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()


@pytest.mark.parametrize("name", TARGETS)
def test_bytes_cut_off_anywhere(name: str) -> None:
    for data in CORPUS[name][:20]:
        for at in range(min(len(data), 400)):
            TARGETS[name](data[:at])
