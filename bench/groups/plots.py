"""Plots of the groups' benchmark."""

from __future__ import annotations

from typing import Any

from bench.groups.rows import CHANGES, COMMITTERS, FIRST, PROTOCOLS, ROWS
from bench.shared.plots import bars
from bench.shared.results import Results
from bench.systems import KAFKA


def _changes(pyplot: Any, results: Results) -> Any:
    """Both protocols, a place for each change."""
    groups = [
        [ROWS.by_id[f"{what}-{protocol}"] for protocol in PROTOCOLS] for what in (FIRST, *CHANGES)
    ]
    return bars(pyplot, results, groups, KAFKA)


def _commits(pyplot: Any, results: Results) -> Any:
    groups = [
        [ROWS.by_id[f"{kind}-{shape}"] for shape in COMMITTERS]
        for kind in ("commits", "commits-p99")
    ]
    return bars(pyplot, results, groups, KAFKA)


def _heartbeats(pyplot: Any, results: Results) -> Any:
    groups = [
        [ROWS.by_id[f"{kind}-{protocol}"] for protocol in PROTOCOLS]
        for kind in ("heartbeats", "idle-cpu")
    ]
    return bars(pyplot, results, groups, KAFKA)


PLOTS = {"changes": _changes, "commits": _commits, "heartbeats": _heartbeats}
