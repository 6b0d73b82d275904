"""What a suite measured, by row, system and run, and its form in a JSON file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.goals import Goal, Verdict, judge
from bench.ratios import Ratio, ratio
from bench.results import Measurement
from bench.shared.bounds import Bound
from bench.shared.rows import TOWPATH, Row, Rows


@dataclass
class Results:
    """All measurements of a suite."""

    rows: Rows
    environment: dict[str, Any]
    settings: dict[str, Any]
    values: dict[str, dict[str, dict[int, Measurement]]] = field(default_factory=dict)
    """Row id, system, run."""

    failures: list[str] = field(default_factory=list)

    def add(self, row: str, system: str, run: int, measured: Measurement) -> None:
        """Keep a measurement of ours, or of the row's peer."""
        assert system in (TOWPATH, self.rows.by_id[row].peer), (row, system)
        self.values.setdefault(row, {}).setdefault(system, {})[run] = measured

    def of(self, row: Row, system: str | None = TOWPATH) -> dict[int, float]:
        """The values of a row by run."""
        by_run = self.values.get(row.id, {}).get(system or "", {})
        return {run: measured.value for run, measured in by_run.items()}

    def raw(self, row: str, system: str = TOWPATH) -> dict[str, Any]:
        """What the first run told besides the value; empty if it was not measured."""
        by_run = self.values.get(row, {}).get(system, {})
        return dict(by_run[min(by_run)].raw) if by_run else {}

    def ratio(self, row: Row) -> Ratio | None:
        """Ours to the peer's, if both were measured in a run."""
        return ratio(self.of(row), self.of(row, row.peer))

    def verdicts(self, row: Row) -> list[tuple[Goal | Bound, Verdict | None]]:
        """Each goal of a row with its verdict; None where the peer was not measured."""
        found = self.ratio(row)
        ratios = {} if found is None or row.peer is None else {row.peer: found}
        return [
            (
                goal,
                goal.judge(self.of(row), row.higher_is_better)
                if isinstance(goal, Bound)
                else judge(goal, ratios, row.higher_is_better),
            )
            for goal in row.goals
        ]

    def measured_rows(self) -> list[Row]:
        """The rows that have a value of ours, in the order of the table."""
        return [row for row in self.rows.all if self.of(row)]

    def count_goals(self) -> tuple[int, int]:
        """Goals reached, and goals that could be judged."""
        found = [
            verdict
            for row in self.measured_rows()
            for _, verdict in self.verdicts(row)
            if verdict is not None
        ]
        return sum(verdict.met for verdict in found), len(found)

    def to_json(self) -> dict[str, Any]:
        """Everything, for a JSON file."""
        return {
            "environment": self.environment,
            "settings": self.settings,
            "rows": {
                row: {
                    system: {
                        run: {"value": one.value, "raw": dict(one.raw)}
                        for run, one in by_run.items()
                    }
                    for system, by_run in by_system.items()
                }
                for row, by_system in self.values.items()
            },
            "failures": self.failures,
        }
