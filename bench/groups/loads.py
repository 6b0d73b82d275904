"""What brokers do for many members: commits, heartbeats, and CPU time while nothing happens."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.groups.ready import make_ready
from bench.groups.rows import (
    CLASSIC,
    COMMITTERS,
    CONSUMER,
    MANY_GROUPS,
    ONE_CONSUMER_GROUP,
    PROTOCOLS,
    RAW_FIRST,
)
from bench.groups.scale import Scale
from bench.groups.systems import both, port_of
from bench.results import Measurement
from bench.shared.part import Context, Part
from bench.shared.session import Session
from bench.systems import System

TOPIC = "loads"
PARTITIONS = 64
MEMBERS = 64
"""Who commit, or send heartbeats, at once."""
HEARTBEAT_GROUPS = 8
FIRST_WARMUPS, FIRST_REPETITIONS = 30, 60
IDLE_GROUPS, IDLE_GROUP_MEMBERS = 10, 100

COMMIT_VALUES = {"commits": "per_second", "commits-p50": "p50_ms", "commits-p99": "p99_ms"}
"""What is kept of a measurement of commits, by the beginning of the row's id."""
MEMBER_ROWS = (RAW_FIRST, "heartbeats", "idle-cpu")
"""The beginnings of the ids of rows that each protocol has."""


class Load(Session):
    """The load generator of one system."""

    def __init__(self, context: Context[Scale], system: System) -> None:
        directory = context.make_directory(f"load-{system.name}")
        super().__init__("bench.groups.load", [], directory / "load.log")
        self._system = system
        self._warmup_s = context.scale.load_warmup_s
        self._asked = 0
        self.answer()

    def measure(
        self, what: str, protocol: str, groups: int, members: int, seconds: float
    ) -> dict[str, Any]:
        """What it tells of new groups of so many members each."""
        return self._ask(
            what,
            protocol,
            groups=groups,
            members=members,
            pids=self._system.pids,
            warmup_s=self._warmup_s,
            seconds=seconds,
        )

    def first(self, protocol: str) -> dict[str, Any]:
        """The times of first assignments."""
        return self._ask("first", protocol, warmups=FIRST_WARMUPS, repetitions=FIRST_REPETITIONS)

    def _ask(self, what: str, protocol: str, **more: Any) -> dict[str, Any]:
        self._asked += 1
        os.sync()
        where = {"name": f"load-{self._asked}", "topic": TOPIC, "port": port_of(self._system)}
        return self.ask({"do": what, "protocol": protocol, **where, **more})


class Loads(Part[Scale]):
    """Every load on both systems."""

    rows = frozenset(
        [f"{kind}-{shape}" for shape in COMMITTERS for kind in COMMIT_VALUES]
        + [f"{kind}-{protocol}" for protocol in PROTOCOLS for kind in MEMBER_ROWS]
    )

    def run(self, context: Context[Scale]) -> None:
        """Load by load, the systems one after the other; the idle members at the same time."""
        with (
            context.attempt("loads"),
            both(context, "loads", {}) as systems,
            contextlib.ExitStack() as stack,
        ):
            loads: dict[str, Load] = {}
            for name, system in systems.items():
                make_ready(port_of(system), {TOPIC: PARTITIONS})
                loads[name] = load = stack.enter_context(Load(context, system))
                load.measure("commits", CLASSIC, 1, MEMBERS, context.scale.broker_warmup_s)
            for protocol in PROTOCOLS:
                for name, load in loads.items():
                    _first(context, protocol, name, load)
            for shape in COMMITTERS:
                for name, load in loads.items():
                    _commits(context, shape, name, load)
            for protocol in PROTOCOLS:
                for name, load in loads.items():
                    _heartbeats(context, protocol, name, load)
            for protocol in PROTOCOLS:
                _idle(context, protocol, loads)


def _first(context: Context[Scale], protocol: str, name: str, load: Load) -> None:
    row = f"{RAW_FIRST}-{protocol}"
    if not context.wants(row):
        return
    with context.attempt(f"first assignments of raw members, {protocol}, {name}"):
        told = load.first(protocol)
        context.keep(row, name, Measurement(statistics.median(told["times_ms"]), raw=told))


def _commits(context: Context[Scale], shape: str, name: str, load: Load) -> None:
    rows = {f"{kind}-{shape}": value for kind, value in COMMIT_VALUES.items()}
    if not context.wants(*rows):
        return
    protocol = CONSUMER if shape == ONE_CONSUMER_GROUP else CLASSIC
    groups, members = (MEMBERS, 1) if shape == MANY_GROUPS else (1, MEMBERS)
    with context.attempt(f"commits, {shape}, {name}"):
        told = load.measure("commits", protocol, groups, members, context.scale.load_s)
        for row, value in rows.items():
            context.keep(row, name, Measurement(told[value], raw=told))


def _heartbeats(context: Context[Scale], protocol: str, name: str, load: Load) -> None:
    row = f"heartbeats-{protocol}"
    if not context.wants(row):
        return
    members = MEMBERS // HEARTBEAT_GROUPS
    with context.attempt(f"heartbeats, {protocol}, {name}"):
        seconds = context.scale.load_s
        told = load.measure("heartbeats", protocol, HEARTBEAT_GROUPS, members, seconds)
        context.keep(row, name, Measurement(told["per_second"], raw=told))


def _idle(context: Context[Scale], protocol: str, loads: Mapping[str, Load]) -> None:
    row = f"idle-cpu-{protocol}"
    if not context.wants(row):
        return
    shape = (IDLE_GROUPS, IDLE_GROUP_MEMBERS, context.scale.idle_s)
    with ThreadPoolExecutor(len(loads)) as threads:
        running = {
            name: threads.submit(load.measure, "idle", protocol, *shape)
            for name, load in loads.items()
        }
    for name, one in running.items():
        with context.attempt(f"idle members, {protocol}, {name}"):
            told = one.result()
            context.keep(row, name, Measurement(told["broker_cpu_cores"], raw=told))
