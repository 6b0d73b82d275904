"""`towpath consume`: reads partitions directly, without a consumer group."""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Annotated

import typer

from towpath.cli import offsets, start_point
from towpath.cli.client import (
    DEFAULT_BOOTSTRAP,
    METADATA_TIMEOUT_SECONDS,
    BootstrapFlag,
    admin,
    consumer,
    explained,
)
from towpath.cli.errors import CliError, complain
from towpath.cli.records_out import TABLE_HEADER, RecordOutput, encode

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

    from towpath.cli.offsets import TopicPartition

HELP = """Read records from a topic, without a consumer group.

\b
Examples:
  towpath consume greetings
  towpath consume greetings --from earliest --until-end
  towpath consume orders --from 2026-01-31T12:00:00Z --output json
  towpath consume orders --partition 0 --from 42 --count 1
"""

POLL_SECONDS = 0.2
POLL_RECORDS = 500


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="earliest, latest, OFFSET, -N from the end, @MILLISECONDS, or an ISO 8601 time.",
        ),
    ] = "latest",
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this partition; repeatable.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at what was the end at the start.")
    ] = False,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
    output: Annotated[RecordOutput, typer.Option(help="Form of a record.")] = RecordOutput.VALUE,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
) -> int:
    """Print records until the end asked for, or Ctrl-C."""
    where = start_point.parse(start)
    reader = consumer(bootstrap, {"auto.offset.reset": "error", "enable.partition.eof": True})
    try:
        partitions = _partitions(reader, topic, partition)
        asking = admin(bootstrap)
        positions = start_point.resolve(asking, partitions, where)
        ends = offsets.latest(asking, partitions) if until_end else None
        _Reading(reader, output, sys.stdout.buffer, count, ends).run(positions)
    except BrokenPipeError:
        # Whoever read our output has enough. Nothing may be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    finally:
        reader.close()
    return 0


def _partitions(reader: Consumer, topic: str, wanted: list[int] | None) -> list[TopicPartition]:
    """The partitions to read; CliError if the topic or one of them does not exist."""
    with explained(f"topic {topic}"):
        found = reader.list_topics(topic, timeout=METADATA_TIMEOUT_SECONDS).topics[topic]
    if found.error is not None:
        raise CliError(f"topic {topic}: {found.error.str()}")
    for number in wanted or []:
        if number not in found.partitions:
            raise CliError(f"topic {topic} has no partition {number}")
    return [(topic, number) for number in sorted(set(wanted or found.partitions))]


class _Reading:
    """Prints records of the assigned partitions until their ends, a count, or an error."""

    def __init__(
        self,
        reader: Consumer,
        output: RecordOutput,
        sink: IO[bytes],
        count: int | None,
        ends: dict[TopicPartition, int] | None,
    ) -> None:
        self._reader = reader
        self._output = output
        self._sink = sink
        self._left = count
        self._ends = ends

    def run(self, positions: dict[TopicPartition, int]) -> None:
        """Start at the positions; return when there is nothing more to print."""
        from confluent_kafka import TopicPartition as KafkaPartition

        if self._ends is not None:
            self._ends = {key: end for key, end in self._ends.items() if positions[key] < end}
        if self._output is RecordOutput.TABLE:
            self._write(TABLE_HEADER.encode())
            self._sink.flush()
        self._reader.assign(
            [KafkaPartition(topic, number, at) for (topic, number), at in positions.items()]
        )
        while not self._finished():
            for message in self._next():
                if self._finished():
                    break
                self._take(message)
            self._sink.flush()

    def _next(self) -> list[Message]:
        """What is there, as soon as something is; empty after a while, so that Ctrl-C is seen."""
        first = self._reader.poll(POLL_SECONDS)
        return [] if first is None else [first, *self._reader.consume(POLL_RECORDS, 0)]

    def _finished(self) -> bool:
        return self._left == 0 or (self._ends is not None and not self._ends)

    def _take(self, message: Message) -> None:
        error = message.error()
        key = (message.topic() or "", message.partition() or 0)
        if error is not None:
            self._take_error(error, key)
            return
        offset = message.offset() or 0
        end = None if self._ends is None else self._ends.get(key)
        if self._ends is None or (end is not None and offset < end):
            self._write(encode(message, self._output))
            if self._left is not None:
                self._left -= 1
        if self._ends is not None and end is not None and offset + 1 >= end:
            del self._ends[key]

    def _take_error(self, error: KafkaError, key: TopicPartition) -> None:
        from confluent_kafka import KafkaError as Codes

        if error.code() == Codes._PARTITION_EOF:
            # The last offsets may hold no record any more; the end is the end all the same.
            if self._ends is not None:
                self._ends.pop(key, None)
        elif error.retriable() or error.code() in (Codes._TRANSPORT, Codes._ALL_BROKERS_DOWN):
            complain(f"warning: {error.str()}, retrying")
        else:
            raise CliError(f"{key[0]} partition {key[1]}: {error.str()}")

    def _write(self, line: bytes) -> None:
        self._sink.write(line)
