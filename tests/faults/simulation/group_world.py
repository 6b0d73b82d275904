"""The groups' part of a run: members, their disasters and checks."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.group_admin import GroupAdmin
from tests.faults.simulation.group_checks import GroupChecks
from tests.faults.simulation.group_invariants import GroupInvariants
from tests.faults.simulation.group_lives import Lives
from tests.faults.simulation.group_member import Surroundings
from tests.faults.simulation.group_nemesis import GroupNemesis
from tests.faults.simulation.group_observer import GroupObserver
from tests.faults.simulation.group_seats import Seats
from tests.faults.simulation.group_truth import GroupTruth

if TYPE_CHECKING:
    from tests.faults.simulation.simulation import Simulation


class GroupWorld:
    """What a simulation has besides brokers and clients if its scenario has groups."""

    def __init__(self, world: Simulation) -> None:
        scenario = world.scenario
        assert scenario.groups is not None
        self._scenario = scenario
        self._world = world
        self.truth = GroupTruth(world.journal, world.loop, world.state)
        world.ledger.on_write = self.truth.wrote
        self.lives = Lives(world.journal, world.loop, self.truth, scenario.groups.session_ms)
        self.observer = GroupObserver(
            world.journal, world.loop, self.truth, self.lives, world.observer
        )
        GroupInvariants(self.truth, self.lives, self.observer)
        surroundings = Surroundings(world.loop, world.cluster, scenario.groups, self.observer)
        self.seats = Seats(surroundings, scenario.seed, world.wire)
        self.nemesis = GroupNemesis(
            world.loop,
            scenario,
            world.cluster,
            world.network,
            world.state,
            world.journal,
            self.seats,
            self.truth,
        )
        self.checks = GroupChecks(scenario, world.state, self.seats, self.truth, self.observer)
        self._admin: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start all members."""
        for seat in self.seats.all():
            self.seats.start(seat)
        assert self._scenario.groups is not None
        if self._scenario.groups.deletes_groups:
            chance = Chance(self._scenario.seed, "group-admin")
            group_ids = [group.group_id for group in self.seats.groups]
            admin = GroupAdmin(self._world.wire("group-admin"), self.observer, chance, group_ids)
            self._admin = self._world.loop.create_task(admin.run())

    def calm_down(self) -> None:
        """The faults have stopped."""
        if self._admin is not None:
            self._admin.cancel()
        assert self._scenario.groups is not None
        # Until then nobody can have expired for what happened before.
        grace_ms = self._scenario.session_ttl_ms + 2 * self._scenario.groups.session_ms
        self.lives.calm_s = self._world.loop.time() + grace_ms / 1000

    async def settle(self) -> None:
        """Wait until the groups are at rest, watch them resting, and let all members go."""
        await self.checks.settle()
        await self.checks.rest()
        chance = Chance(self._scenario.seed, "last-members")
        for seat in self.seats.all():
            if chance.happens(0.5):
                self.seats.leave(seat)
            else:
                self.seats.crash(seat)
        await self.seats.left()
        await self.checks.settle()

    def counts(self) -> Counter[str]:
        """How often things happened."""
        return self.observer.counts + self.nemesis.counts + self.lives.counts
