"""How often a fault is repeated: a few times in the test command, hundreds of times by flag."""

from __future__ import annotations

import os
from typing import Any

import pytest

VARIABLE = "TOWPATH_FAULT_ROUNDS"
"""Overrides the number of rounds of every fault test."""

SLOW_ROUNDS = 200


def rounds(few: int, many: int = SLOW_ROUNDS) -> list[Any]:
    """Values of a `rounds` parameter: `few`, and `many` in a variant marked as slow."""
    asked = os.environ.get(VARIABLE)
    if asked:
        return [pytest.param(int(asked), marks=pytest.mark.timeout(0), id="asked")]
    slow = (pytest.mark.slow, pytest.mark.timeout(0))
    return [pytest.param(few, id="few"), pytest.param(many, marks=slow, id="many")]
