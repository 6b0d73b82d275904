"""Where the benchmark finds and leaves things in a checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT_SOURCES = ROOT / "bench" / "client"
CACHE = ROOT / ".cache" / "bench"
"""Compiled client, and the brokers' data while a run lasts."""

RESULTS = ROOT / "bench" / "results"
"""Where a full run leaves its results; they are kept with the sources."""

PARTIAL_RESULTS = CACHE / "results"
"""Where a quick or partial run leaves its results, so that it never replaces a full one."""
