"""What a commit costs after few and after many of them."""

from __future__ import annotations

from typing import Any

from bench.compact.rows import COMMITS
from bench.compact.scale import Scale
from bench.results import Measurement
from bench.shared.part import KB, Context, Part
from bench.shared.rows import TOWPATH
from bench.shared.session import Session


class Commits(Part[Scale]):
    """A table that gets a thousand commits, beside new ones that get ten."""

    rows = frozenset(
        f"{prefix}-{number}"
        for number in COMMITS
        for prefix in ("commit", "commit-size", "commit-files")
    )

    def run(self, context: Context[Scale]) -> None:
        """All commits up to the last one that is wanted."""
        points = [point for point in COMMITS if context.wants(*self._rows(point))]
        directory = context.make_directory("commits")
        arguments, log = [str(directory / "data")], directory / "commits.log"
        with (
            context.attempt("commits"),
            Session("bench.compact.commit_costs", arguments, log) as session,
        ):
            session.answer()
            told = session.ask({"points": points})
            for point in points:
                self._keep(context, point, told)

    def _keep(self, context: Context[Scale], point: int, told: dict[str, Any]) -> None:
        found = told["points"][str(point)]
        ours, tenth = found["metadata"], found["tenth_metadata"]
        values = (
            (found["ms"], found["tenth_ms"]),
            (ours["bytes"] / KB, tenth["bytes"] / KB),
            (ours["files"], tenth["files"]),
        )
        for row, (value, peer) in zip(self._rows(point), values, strict=True):
            raw = (
                {**found, "times_ms": told["times_ms"]} if row == f"commit-{COMMITS[-1]}" else found
            )
            context.keep(row, TOWPATH, Measurement(value, raw=raw))
            context.keep(row, context.peer_of(row), Measurement(peer))

    @staticmethod
    def _rows(point: int) -> tuple[str, ...]:
        return f"commit-{point}", f"commit-size-{point}", f"commit-files-{point}"
