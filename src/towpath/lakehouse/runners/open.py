"""Chooses how jobs get to Spark."""

from __future__ import annotations

from towpath.lakehouse.runners.execute import Execute, execute
from towpath.lakehouse.runners.runner import Runner
from towpath.lakehouse.runners.spark_connect import SparkConnectRunner
from towpath.lakehouse.runners.spark_rdd import SparkRddRunner
from towpath.lakehouse.runners.spark_settings import SparkSettings


def open_runner(settings: SparkSettings, execute: Execute = execute) -> Runner:
    """A runner on Spark Connect if an address of it is set, else one with a driver of its own.
    Nothing is started before the first run; whoever opens it closes it."""
    if settings.remote is not None:
        return SparkConnectRunner(settings, execute)
    return SparkRddRunner(settings, execute)
