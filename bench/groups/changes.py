"""Assignments: the first, and those after a join, a close and a death."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from bench.groups.members import PARTITIONS, TOPIC, MemberPool, Place
from bench.groups.ready import make_ready
from bench.groups.rows import CHANGES, FIRST, HEARTBEAT_INTERVAL_S, PROTOCOLS
from bench.groups.scale import Scale
from bench.groups.systems import SHORT, both, port_of
from bench.groups.trial import first, live
from bench.plan import rotated
from bench.results import Measurement
from bench.shared.part import Context, Part
from bench.systems import System

GROUP_MEMBERS = 3
DISTANCE_S = 0.15
"""Between the beginnings of trials, so that they do not all join at once."""

Numbers = Callable[[], int]


class Changes(Part[Scale]):
    """Every change of both protocols on both systems."""

    rows = frozenset(f"{what}-{protocol}" for protocol in PROTOCOLS for what in (FIRST, *CHANGES))

    def run(self, context: Context[Scale]) -> None:
        """The first assignments, then the lives of groups."""
        numbers = count().__next__
        with context.attempt("groups"), both(context, "changes", SHORT) as systems:
            for system in systems.values():
                make_ready(port_of(system), {TOPIC: PARTITIONS})
            with MemberPool(context.make_directory("members")) as pool:
                for protocol in PROTOCOLS:
                    if context.wants(f"{FIRST}-{protocol}"):
                        with context.attempt(f"first assignment, {protocol}"):
                            _firsts(context, protocol, systems, pool, numbers)
                for protocol in PROTOCOLS:
                    if context.wants(*(f"{what}-{protocol}" for what in CHANGES)):
                        for system in systems.values():
                            with context.attempt(f"groups, {protocol}, {system.name}"):
                                _lives(context, protocol, system, pool, numbers)


def _firsts(
    context: Context[Scale],
    protocol: str,
    systems: Mapping[str, System],
    pool: MemberPool,
    numbers: Numbers,
) -> None:
    """The systems take turns, and who begins changes."""
    scale = context.scale
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    with pool.members(1) as (member,):
        for number in range(scale.first_warmups + scale.first_repetitions):
            for name in rotated(list(systems), number):
                place = Place(port_of(systems[name]), f"first-{numbers()}", protocol)
                found = first(place, member)
                if number >= scale.first_warmups:
                    seconds[name].append(found)
    for name, values in seconds.items():
        context.keep(f"{FIRST}-{protocol}", name, measured([1000 * value for value in values]))


def _lives(
    context: Context[Scale], protocol: str, system: System, pool: MemberPool, numbers: Numbers
) -> None:
    """Groups that live at the same time, each in another phase of the heartbeats."""
    trials = context.scale.trials
    with pool.members(GROUP_MEMBERS * trials) as members, ThreadPoolExecutor(trials) as threads:
        os.sync()
        running = []
        for number in range(trials):
            place = Place(port_of(system), f"live-{numbers()}", protocol)
            phase_s = HEARTBEAT_INTERVAL_S * (number + 0.5) / trials
            own, delay_s = members[number::trials], number * DISTANCE_S
            running.append(threads.submit(live, place, own, phase_s, delay_s))
        found = [one.result() for one in running]
    for what in CHANGES:
        context.keep(f"{what}-{protocol}", system.name, measured([one[what] for one in found]))


def measured(values: list[float]) -> Measurement:
    """Their median, with all of them."""
    return Measurement(statistics.median(values), raw={"repetitions": values})
