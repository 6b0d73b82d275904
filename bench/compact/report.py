"""What a benchmark of the pipeline leaves behind: `compact.json`, `compact.md` and plots."""

from __future__ import annotations

import json
from pathlib import Path

from bench.compact.plots import write_plots
from bench.compact.results import Results
from bench.compact.rows import Row
from bench.ratios import median, spread
from bench.report.format import NONE, number, percent, table, times

METHOD = """\
Every row is held against something measured in the same run, and the ratio is taken within each
run, then the median over the runs; in brackets the least and the greatest.

- **Compaction**: one round of the pipeline with its default settings (`local[*,4]`) over a topic of
  4 partitions, from planning to the commit, against `kafka + spark`: Apache Kafka holding the same
  records, read with Spark's Kafka source and written with Iceberg's own writer to a table of the
  same columns (`local[*]`, files as catalog, 4 GiB heap, everything else as it comes, which is what
  a user runs). `kafka + spark, tuned` is the same with the fastest settings that were found (one
  task per partition, no shuffle and no sort, zstd level 1 as ours, no statistics of keys and
  values, large polls and fetches, ParallelGC). All sessions use the same Java, and have just done a
  smaller topic of the same records. MB are keys and values, uncompressed. CPU time is that of the
  driver, its JVM and its Python workers, children that ended included; Kafka's broker, which the
  other way also needs, is not counted (`broker_cpu_seconds` in `compact.json`). Our files are
  synced to the disk before they count, the other's are left to the kernel.
- **Fetch from Parquet**: librdkafka in C reads the topic from offset 0, from a broker process that
  has just started, before and after the compaction; the page cache is warm. What the broker loads
  when it reads its first Parquet file, of another topic, is not in it (`first_fetch` in
  `compact.json`).
- **Commits**: one small data file each, default catalog and upkeep, on a clock that moves on by
  five seconds per commit; medians around each point. The 10th commit is that of a new table,
  measured right after. Small files are not merged meanwhile.
- **Acknowledged to visible**: `towpath up` with its defaults, ten topics with 100 records a second
  each, every record counted: from the producer's answer to the first pyiceberg table whose snapshot
  holds the offset. Half of the time and more is the setting `compaction.wal.max.age` (5 s).
- **Memory**: peak resident memory (shared pages counted in each process) of a round, against that
  of a round over a quarter of the backlog; the Python workers are limited to what they held after a
  tiny backlog and their share of what is given (`RLIMIT_DATA`).
"""

QUICK_WARNING = """\
A quick run is too short for a JVM to warm up: it tells that the benchmark works and which rows to
look at, and supports no claim.
"""


def write_report(results: Results, directory: Path) -> list[Path]:
    """Write everything into a directory; the files. Plots need matplotlib and are left out without
    it."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = {
        "compact.json": json.dumps(results.to_json(), indent=1, ensure_ascii=False) + "\n",
        "compact.md": page(results),
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return [*(directory / name for name in texts), *write_plots(results, directory)]


def page(results: Results) -> str:
    """The whole page."""
    met, judged = results.count_goals()
    parts = [
        "# Benchmark of the data pipeline\n",
        environment_line(results),
        *([QUICK_WARNING] if results.settings.get("quick") else []),
        METHOD,
        "## Results\n",
        results_table(results),
        f"{met} of {judged} goals reached.\n",
    ]
    if results.settings.get("runs", 1) > 1:
        parts += ["## Spread between runs\n", spread_table(results)]
    if results.failures:
        parts += [
            "## Failures\n",
            "".join(f"- {failure.splitlines()[0]}\n" for failure in results.failures),
        ]
    return "\n".join(parts)


def environment_line(results: Results) -> str:
    """What it ran on, in a sentence."""
    known = results.environment
    runs = results.settings.get("runs", 1)
    kind = "quick, " if results.settings.get("quick") else ""
    return (
        f"{known['date']}, commit {known['commit']}: {known['cores']} cores ({known['cpu']}), "
        f"{known['memory_gib']} GiB, Linux {known['kernel']}, {known['file_system']}; "
        f"Python {known['python']}, pyspark {known['pyspark']}, pyiceberg {known['pyiceberg']}, "
        f"Java {known['spark_java']} for both Sparks, Apache Kafka {known['kafka']}, Iceberg for "
        f"Spark {known['iceberg']}; load before the start {known['load']}; {kind}"
        f"{'one run' if runs == 1 else f'medians of {runs} runs'}.\n"
    )


def results_table(results: Results) -> str:
    """One line per row."""
    head = ["", "unit", "towpath", "against", "its value", "ratio", "goal", "reached"]
    return table(head, [_line(results, row) for row in results.measured_rows()])


def _line(results: Results, row: Row) -> list[str]:
    judged = results.verdicts(row)
    return [
        row.title,
        row.unit,
        number(median(results.of(row))),
        row.peer or NONE,
        number(median(results.of(row, row.peer))),
        times(results.ratio(row), with_range=True),
        "<br>".join(goal.text(row.higher_is_better) for goal, _ in judged) or NONE,
        "<br>".join(found.text if found else NONE for _, found in judged) or NONE,
    ]


def spread_table(results: Results) -> str:
    """Greatest less least of the runs, as a part of the median."""
    lines = [
        [f"{row.title} ({row.unit})", percent(spread(results.of(row))),
         percent(spread(results.of(row, row.peer)))]
        for row in results.measured_rows()
    ]  # fmt: skip
    return table(["greatest less least, of the median", "towpath", "against"], lines)
