"""What a suite leaves behind: its numbers as JSON, a page, and plots when matplotlib is there."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.ratios import median, spread
from bench.report.format import NONE, number, percent, table, times
from bench.shared.results import Results
from bench.shared.rows import Row

Draw = Callable[[Any, Results], Any]
"""Makes a figure with pyplot; None if what it shows was not measured."""

SPARK_VERSIONS = (
    "Python {python}, pyspark {pyspark}, pyiceberg {pyiceberg}, DuckDB {duckdb}, "
    "Java {spark_java} for all Sparks, Apache Kafka {kafka}, Iceberg for Spark {iceberg}"
)


@dataclass(frozen=True)
class Report:
    """How a suite's results are told."""

    title: str
    method: str
    """What was measured and how."""

    plots: Mapping[str, Draw] = field(default_factory=dict)
    """By name."""

    versions: str = SPARK_VERSIONS
    """What it ran with, to be filled from the environment."""


QUICK_WARNING = """\
A quick run is too short for a JVM to warm up: it tells that the benchmark works and which rows to
look at, and supports no claim.
"""


def write_report(report: Report, results: Results, directory: Path) -> list[Path]:
    """Write everything into a directory; the files."""
    directory.mkdir(parents=True, exist_ok=True)
    suite = results.rows.suite
    texts = {
        f"{suite}.json": json.dumps(results.to_json(), indent=1, ensure_ascii=False) + "\n",
        f"{suite}.md": page(report, results),
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return [*(directory / name for name in texts), *write_plots(report, results, directory)]


def write_plots(report: Report, results: Results, directory: Path) -> list[Path]:
    """Write the plots of what was measured; the files. None without matplotlib."""
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return []
    written = []
    for name, draw in report.plots.items():
        figure = draw(pyplot, results)
        if figure is not None:
            path = directory / f"{results.rows.suite}-{name}.png"
            figure.tight_layout()
            figure.savefig(path, dpi=120)
            pyplot.close(figure)
            written.append(path)
    return written


def page(report: Report, results: Results) -> str:
    """The whole page."""
    met, judged = results.count_goals()
    parts = [
        f"# {report.title}\n",
        environment_line(report, results),
        *([QUICK_WARNING] if results.settings.get("quick") else []),
        report.method,
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


def environment_line(report: Report, results: Results) -> str:
    """What it ran on, in a sentence."""
    known = results.environment
    runs = results.settings.get("runs", 1)
    kind = "quick, " if results.settings.get("quick") else ""
    return (
        f"{known['date']}, commit {known['commit']}: {known['cores']} cores ({known['cpu']}), "
        f"{known['memory_gib']} GiB, Linux {known['kernel']}, {known['file_system']}; "
        f"{report.versions.format(**known)}; load before the start {known['load']}; {kind}"
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
