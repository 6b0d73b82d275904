"""`results.md`: every row with its ratios and goals, the limits, and how far runs lie apart."""

from __future__ import annotations

from bench.goals import Goal, Verdict, judge
from bench.limits import DESCRIPTIONS
from bench.ratios import median, spread
from bench.report.format import NONE, number, percent, table, times
from bench.results import Results
from bench.rows import LIMIT, ROWS, Row
from bench.systems import KAFKA, KAFKA_FLUSH, NAMES, TOWPATH

METHOD = """\
One broker of each system on the same disk, started on an empty directory in each run. Every case
is measured on one system after the other while the other brokers are up and idle; the order of
the systems is another one in each run, and dirty pages are written back before each measurement.
The client is librdkafka in C, in a process of its own, with the same settings for every system
(`acks=all`, 4 partitions, at most 32 MB waiting; not idempotent except where it says so). `kafka`
has its defaults and leaves writing to the disk to the kernel; `kafka-flush` syncs each append
(`log.flush.interval.messages=1`); `towpath` answers after its syncs. A ratio is taken within each
run, then the median over the runs; in brackets the least and the greatest. Throughput counts
bytes of records; the limit of compressed rows is held against bytes on the wire. Nothing is
pinned to a core.
"""


QUICK_WARNING = """\
A quick run is too short for a JVM to warm up and for a disk to show its mean: it tells that the
benchmark works and which rows to look at, and supports no claim.
"""


def page(results: Results) -> str:
    """The whole page."""
    parts = [
        "# Benchmark\n",
        environment_line(results),
        *([QUICK_WARNING] if results.settings.get("quick") else []),
        METHOD,
        "## Results\n",
        results_table(results),
        "## Limits of the machine\n",
        limits_table(results),
    ]
    if results.settings.get("runs", 1) > 1:
        parts += ["## Spread between runs\n", spread_table(results)]
    if results.idle_cpu:
        shares = list(results.idle_cpu.values())
        parts.append(
            f"Idle brokers together used {number(sum(shares) / len(shares))} of a core on average "
            f"and {number(max(shares))} at most while another system was measured.\n"
        )
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
        f"Python {known['python']}, Apache Kafka {known['kafka']} ({known['kafka_heap']}, "
        f"{known['java']}), librdkafka {known['librdkafka']}; {kind}"
        f"{'one run' if runs == 1 else f'medians of {runs} runs'}.\n"
    )


def measured_rows(results: Results) -> list[Row]:
    """The rows that have a value of ours, in the order of the table."""
    return [row for row in ROWS if results.of(row, TOWPATH)]


def verdicts(results: Results, row: Row) -> list[tuple[Goal, Verdict | None]]:
    """Each goal of a row with its verdict."""
    ratios = results.ratios(row)
    return [(goal, judge(goal, ratios, row.higher_is_better)) for goal in row.goals]


def results_table(results: Results) -> str:
    """One line per row."""
    head = ["", "unit", *NAMES, "to kafka", "to kafka-flush", "to limit", "goal", "reached"]
    lines = []
    for row in measured_rows(results):
        ratios = results.ratios(row)
        judged = verdicts(results, row)
        lines.append(
            [
                row.title,
                row.unit,
                *(number(median(results.of(row, name))) for name in NAMES),
                times(ratios.get(KAFKA), with_range=True),
                times(ratios.get(KAFKA_FLUSH)),
                times(ratios.get(LIMIT)),
                "<br>".join(goal.text(row.higher_is_better) for goal, _ in judged) or NONE,
                "<br>".join(found.text if found else NONE for _, found in judged) or NONE,
            ]
        )
    return table(head, lines)


def limits_table(results: Results) -> str:
    """The limits and how far they moved between runs."""
    lines = [
        [text, number(median(results.limits[name])), percent(spread(results.limits[name]))]
        for name, text in DESCRIPTIONS.items()
        if name in results.limits
    ]
    return table(["", "median", "spread"], lines)


def spread_table(results: Results) -> str:
    """Greatest less least of the runs, as a part of the median."""
    lines = [
        [row.title, *(percent(spread(results.of(row, name))) for name in NAMES)]
        for row in measured_rows(results)
    ]
    return table(["greatest less least, of the median", *NAMES], lines)
