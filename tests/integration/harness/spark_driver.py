"""A process that runs one job on Spark, for tests that kill it.

Arguments: the directory of Spark's files, the master, and the directory where the job waits.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.integration.harness.spark_cluster import EXECUTOR_CONF
from tests.integration.harness.spark_jobs import act, make_job

from towpath.lakehouse.runners.spark_rdd import SparkRddRunner
from towpath.lakehouse.runners.spark_settings import SparkSettings


async def main(work_dir: str, master: str, note: str) -> None:
    """Run a job that waits for ever, as far as this process is concerned."""
    settings = SparkSettings(Path(work_dir), master=master, conf=EXECUTOR_CONF, ui_port=None)
    runner = SparkRddRunner(settings, act)
    await runner.run([make_job(0, "wait", note)])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
