"""The members of a run: each group has seats, and each seat one life at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.group_classic import ClassicMember
from tests.faults.simulation.group_consumer import ConsumerMember
from tests.faults.simulation.group_member import GroupMember, Surroundings
from tests.faults.simulation.wire import Wire

from towpath.groups.settings import CLASSIC

HANGS_UP = 0.6
"""How often a member that crashes is missed by its broker at once."""


@dataclass(slots=True)
class Seat:
    """A place for a member, with the life that has it now."""

    group_id: str
    number: int
    instance_id: str | None
    lives: int = 0
    member: GroupMember | None = None
    task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """What its member is called, whatever its life."""
        return f"{self.group_id}-{self.number}"


@dataclass(slots=True)
class SimGroup:
    """A group of a run."""

    group_id: str
    kind: str
    seats: list[Seat] = field(default_factory=list)

    def members(self) -> list[GroupMember]:
        """Those who are alive."""
        return [seat.member for seat in self.seats if seat.member is not None]


class Seats:
    """Starts members, lets them crash and tells them to leave."""

    def __init__(self, world: Surroundings, seed: int, make_wire: Callable[[str], Wire]) -> None:
        self._world = world
        self._seed = seed
        self._make_wire = make_wire
        self._chance = Chance(seed, "seats")
        self.groups = [
            self._group(f"{kind}-{number}", kind, world.scenario.seats[number])
            for number, kind in enumerate(world.scenario.kinds)
        ]
        self._leaving: list[asyncio.Task[None]] = []

    def _group(self, group_id: str, kind: str, count: int) -> SimGroup:
        group = SimGroup(group_id, kind)
        for number in range(count):
            static = self._chance.happens(self._world.scenario.static_share)
            instance_id = f"static-{number}" if static else None
            group.seats.append(Seat(group_id, number, instance_id))
        return group

    def all(self) -> list[Seat]:
        """Every seat of every group."""
        return [seat for group in self.groups for seat in group.seats]

    def start(self, seat: Seat) -> None:
        """Begin a new life, if there is none."""
        if seat.member is not None:
            return
        seat.lives += 1
        name = f"{seat.name}.{seat.lives}"
        self._world.observer.journal.note(f"member {name} starts")
        wire = self._make_wire(name)
        kind = ClassicMember if seat.group_id.startswith(CLASSIC) else ConsumerMember
        chance = Chance(self._seed, name)
        seat.member = kind(self._world, wire, chance, seat.group_id, seat.instance_id)
        seat.task = self._world.loop.create_task(seat.member.run())

    def crash(self, seat: Seat) -> None:
        """End a life at once."""
        if seat.member is None or seat.task is None:
            return
        self._world.observer.journal.note(f"member {seat.name}.{seat.lives} crashes")
        seat.task.cancel()
        if self._chance.happens(HANGS_UP):
            seat.member.wire.close()
        else:
            seat.member.wire.abandon()
        seat.member.crash()
        seat.member = seat.task = None

    def leave(self, seat: Seat) -> None:
        """Tell a member to leave; it does so when it can."""
        if seat.member is None or seat.task is None:
            return
        self._world.observer.journal.note(f"member {seat.name}.{seat.lives} is to leave")
        seat.member.leaving = True
        self._leaving.append(seat.task)
        seat.member = seat.task = None

    async def left(self) -> None:
        """Wait until all that were to leave have left."""
        await asyncio.gather(*self._leaving)

    def check(self) -> None:
        """A member that broke is a finding."""
        for task in [*self._leaving, *(seat.task for seat in self.all() if seat.task)]:
            if task.done() and not task.cancelled() and task.exception() is not None:
                self._world.observer.journal.fail(f"a member broke: {task.exception()!r}")
