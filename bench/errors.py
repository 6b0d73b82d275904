"""What ends the benchmark, or one measurement of it."""

from __future__ import annotations


class BenchError(Exception):
    """The benchmark cannot run; the message says what to do."""


class MeasurementFailed(Exception):
    """One measurement failed; the others go on."""
