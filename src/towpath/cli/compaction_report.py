"""What a round of compaction did, as a table, JSON or log lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog

from towpath.cli.errors import say
from towpath.cli.output import Output, table

if TYPE_CHECKING:
    from towpath.lakehouse.rounds import RoundSummary, TopicSummary

MB = 1_000_000
COLUMNS = ("topic", "tasks", "records", "input MB", "MB/s", "files", "file MB", "snapshot")

logger = structlog.get_logger("towpath.compactor")


def show_summary(summary: RoundSummary, seconds: float, output: Output) -> None:
    """What a round did, per topic; its failures as lines on stderr."""
    if output is Output.JSON:
        print(json.dumps(_as_json(summary, seconds)))
    elif summary.topics:
        rows = [_row(name, topic, seconds) for name, topic in sorted(summary.topics.items())]
        table(COLUMNS, rows)
    else:
        print("nothing to compact")
    if summary.more:
        say("more is waiting than one round takes: run it again")
    for failure in summary.failures:
        say(f"failed: {failure}")


def log_round(summary: RoundSummary) -> None:
    """A log line per topic whose table got something."""
    for name, topic in sorted(summary.topics.items()):
        if not topic.tasks:
            continue
        logger.info(
            "compacted",
            topic=name,
            tasks=topic.tasks,
            records=topic.records,
            input_bytes=topic.input_bytes,
            files=topic.files,
            file_bytes=topic.file_bytes,
            snapshot=topic.snapshot_id,
        )


def _row(name: str, topic: TopicSummary, seconds: float) -> list[str]:
    speed = topic.input_bytes / MB / seconds if seconds else 0.0
    return [
        name,
        str(topic.tasks),
        str(topic.records),
        f"{topic.input_bytes / MB:.1f}",
        f"{speed:.1f}",
        str(topic.files),
        f"{topic.file_bytes / MB:.1f}",
        str(topic.snapshot_id or "-"),
    ]


def _as_json(summary: RoundSummary, seconds: float) -> dict[str, object]:
    return {
        "seconds": round(seconds, 3),
        "workerCpuSeconds": round(summary.cpu_seconds, 3),
        "more": summary.more,
        "failures": summary.failures,
        "topics": [
            {
                "topic": name,
                "tasks": topic.tasks,
                "records": topic.records,
                "inputBytes": topic.input_bytes,
                "files": topic.files,
                "fileBytes": topic.file_bytes,
                "snapshotId": topic.snapshot_id,
            }
            for name, topic in sorted(summary.topics.items())
        ],
    }
