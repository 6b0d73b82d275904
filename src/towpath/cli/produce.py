"""`towpath produce`: records from lines of stdin or a file."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from towpath.cli.client import DEFAULT_BOOTSTRAP, BootstrapFlag, explain, producer
from towpath.cli.errors import FAILED, CliError, UsageError, complain
from towpath.cli.records_in import InputError, LineFormat, Record, read_records
from towpath.cli.settings import split_assignments

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

HELP = """Write records to a topic: each line of stdin is one value.

\b
Examples:
  echo hello | towpath produce greetings
  printf 'k1:v1\\nk2:v2\\n' | towpath produce orders --key-separator :
  echo '{"key": "k", "value": {"a": 1}, "headers": {"h": "x"}}' | towpath produce orders --json
  towpath produce images --file cat.png --binary --key cat
"""

DELIVERY_TIMEOUT_MS = 30_000
RECORD_MAX_BYTES = 104_857_600
"""The client's own limit is out of the way: the topic's `max.message.bytes` decides."""

ERRORS_SHOWN_MAX = 5
FLUSH_SLICE_SECONDS = 0.2


class Acks(StrEnum):
    """How many replicas acknowledge."""

    ALL = "all"
    ONE = "1"
    NONE = "0"


class Compression(StrEnum):
    """The producer's codecs."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    key: Annotated[str | None, typer.Option(help="The key of every record.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Splits each line into key and value.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of every record; repeatable."),
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="The partition to write to.")] = None,
    null_value: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A value written so becomes null.")
    ] = None,
    json_lines: Annotated[
        bool,
        typer.Option("--json", help="Lines are JSON: key, value, headers, partition, timestamp."),
    ] = False,
    binary: Annotated[bool, typer.Option("--binary", help="The whole input is one value.")] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read this instead of stdin.")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="Acknowledgement to wait for.")] = Acks.ALL,
    compression: Annotated[Compression, typer.Option(help="Codec.")] = Compression.NONE,
    idempotent: Annotated[
        bool | None,
        typer.Option(
            "--idempotent/--no-idempotent", help="No duplicates on retry.  [default: with acks=all]"
        ),
    ] = None,
    bootstrap: BootstrapFlag = DEFAULT_BOOTSTRAP,
) -> int:
    """Send the input and wait until every record is acknowledged."""
    if sum((json_lines, binary, key_separator is not None)) > 1:
        raise UsageError("choose one of --json, --binary and --key-separator")
    if key_separator == "":
        raise UsageError("--key-separator must not be empty")
    if idempotent and acks is not Acks.ALL:
        raise UsageError("--idempotent needs --acks all")
    form = LineFormat(
        key=None if key is None else key.encode(),
        key_separator=None if key_separator is None else key_separator.encode(),
        headers=tuple(
            (name, value.encode()) for name, value in split_assignments(header or [], "--header")
        ),
        partition=partition,
        null_value=None if null_value is None else null_value.encode(),
        json_lines=json_lines,
        binary=binary,
    )
    with _open(file) as source:
        client = producer(
            bootstrap,
            {
                "acks": acks.value,
                "compression.type": compression.value,
                "enable.idempotence": acks is Acks.ALL if idempotent is None else idempotent,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "message.max.bytes": RECORD_MAX_BYTES,
            },
        )
        return _Sending(client, topic).run(read_records(source, form))


@contextlib.contextmanager
def _open(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None:
        if sys.stdin.isatty():
            complain("one record per line, Ctrl-D ends")
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}") from error
    with source:
        yield source


class _Sending:
    """Counts what is acknowledged; the client's own queue bounds what is on its way."""

    def __init__(self, client: Producer, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._acknowledged = 0
        self._failed = 0

    def run(self, records: Iterator[Record]) -> int:
        """Send all of it; 0 if every record was acknowledged. Ctrl-C sends what was read."""
        interrupted = False
        try:
            for record in records:
                self._send(record)
        except KeyboardInterrupt:
            interrupted = True
        except InputError as error:
            self._fail(str(error))
        while len(self._client) > 0:
            self._client.poll(FLUSH_SLICE_SECONDS)
        self._client.flush(FLUSH_SLICE_SECONDS)
        suffix = f", {self._failed} failed" if self._failed else ""
        noun = "record" if self._acknowledged == 1 else "records"
        complain(f"{self._acknowledged} {noun} acknowledged{suffix}")
        if self._failed:
            return FAILED
        return 130 if interrupted else 0

    def _send(self, record: Record) -> None:
        from confluent_kafka import KafkaException

        while True:
            try:
                self._client.produce(self._topic, on_delivery=self._delivered, **record.arguments())
                break
            except BufferError:
                self._client.poll(FLUSH_SLICE_SECONDS)
            except KafkaException as failure:
                self._fail(f"{record.place}: {explain(failure)}")
                break
        self._client.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
        else:
            self._fail(error.str())

    def _fail(self, reason: str) -> None:
        self._failed += 1
        if self._failed <= ERRORS_SHOWN_MAX:
            complain(reason)
