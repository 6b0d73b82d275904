"""`towpath sql` in a new process, beside DuckDB in a new process on exactly the bare files.

The topics are compacted as a whole. Both processes are Python from the same environment, and both
answers must be the same.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench.compact.sessions import TowpathSession
from bench.errors import MeasurementFailed
from bench.read import new_process
from bench.read.repeated import alternating, middle
from bench.read.rows import BARE_FILES
from bench.read.scale import Scale
from bench.results import Measurement
from bench.shared.fill import PARTITIONS, Filled, fill
from bench.shared.part import Context, Part
from bench.shared.rows import TOWPATH
from bench.shared.shapes import Shape
from bench.systems import Towpath
from towpath.config.settings import Settings
from towpath.reading.index import at_one_moment
from towpath.reading.topic import plan_topic

SHAPE = Shape(100, "lz4")
COLD, FILTER = "sql-cold", "sql-filter"
WORD = "77"
"""About one record in seven has it."""

BARE_QUERY = """\
import json, sys
import duckdb
answer = duckdb.sql(sys.argv[1])
print(json.dumps([dict(zip(answer.columns, row)) for row in answer.fetchall()]))
"""


class Queries(Part[Scale]):
    """A count and a filter."""

    rows = frozenset({COLD, FILTER})

    def run(self, context: Context[Scale]) -> None:
        """Make the tables, then ask."""
        directory = context.directory / "sql"
        system = Towpath(directory, context.program)
        wanted = {
            COLD: context.scale.cold_records,
            FILTER: context.scale.filter_records,
        }
        with context.attempt("sql"):
            try:
                system.process.start()
                filled = {
                    row: _compacted(system, directory, row, records)
                    for row, records in wanted.items()
                    if context.wants(row)
                }
                for turn, (row, topic) in enumerate(filled.items()):
                    self._measure(context, row, topic, directory / "data", turn)
            finally:
                system.kill()

    def _measure(
        self, context: Context[Scale], row: str, filled: Filled, data_dir: Path, turn: int
    ) -> None:
        query = QUERIES[row](filled)
        files = bare_files(data_dir, filled.topic)
        names = ", ".join(f"'{file}'" for file in files)
        ours = query.format(source=f'"{filled.topic}"')
        theirs = query.format(source=f"read_parquet([{names}])")
        commands = {
            TOWPATH: [sys.executable, "-m", "towpath", "sql", ours, "--output", "json",
                      "--data-dir", str(data_dir)],
            BARE_FILES: [sys.executable, "-c", BARE_QUERY, theirs],
        }  # fmt: skip
        os.sync()
        told = alternating(
            {name: partial(new_process.run, command) for name, command in commands.items()},
            context.scale.sql_repetitions,
            context.run + turn,
        )
        check_answers([one["text"] for repetitions in told.values() for one in repetitions])
        size_bytes = sum(file.stat().st_size for file in files)
        for name, repetitions in told.items():
            raw = {"files": len(files), "file_bytes": size_bytes, "query": ours,
                   "repetitions": repetitions}  # fmt: skip
            context.keep(row, name, Measurement(middle(repetitions, "seconds"), raw=raw))


def count_query(_: Filled) -> str:
    """Every record."""
    return "SELECT count(*) AS records FROM {source}"


def filter_query(filled: Filled) -> str:
    """The middle half of each partition by offset, and of it what has a certain word."""
    records = filled.records // PARTITIONS
    return (
        'SELECT count(*) AS records, min("offset") AS least, max("offset") AS most, '
        "sum(octet_length(value))::BIGINT AS bytes FROM {source} "
        f'WHERE "offset" >= {records // 4} AND "offset" < {records * 3 // 4} '
        f"AND contains(decode(value), '{WORD}')"
    )


QUERIES = {COLD: count_query, FILTER: filter_query}


def bare_files(data_dir: Path, topic: str) -> list[Path]:
    """The Parquet files of a topic; MeasurementFailed if they are not all of it."""
    settings = Settings(data_dir=data_dir)
    metadata, root = settings.metadata_path(), settings.objects_path()
    assert metadata is not None
    assert root is not None
    plan = at_one_moment(metadata, lambda reader: plan_topic(reader, topic))
    if any(each.tail or not all(part.is_whole for part in each.files) for each in plan.partitions):
        raise MeasurementFailed(f"{topic} is not in whole files")
    return [root / part.file.path for each in plan.partitions for part in each.files]


def check_answers(texts: list[str]) -> None:
    """Raise MeasurementFailed unless all answers are the same, and not empty."""
    answers: list[Any] = [json.loads(text) for text in texts]
    if not answers or any(answer != answers[0] for answer in answers):
        raise MeasurementFailed(f"the answers differ: {answers}")
    if not answers[0] or not answers[0][0]["records"]:
        raise MeasurementFailed(f"nothing was found: {answers[0]}")


def _compacted(system: Towpath, directory: Path, name: str, records: int) -> Filled:
    filled = fill(system, name, SHAPE, records * SHAPE.record_bytes)
    with TowpathSession(directory / "data", directory / f"{name}.log") as compactor:
        compactor.answer()
        compactor.ask({"topic": filled.topic, "records": filled.records})
    return filled
