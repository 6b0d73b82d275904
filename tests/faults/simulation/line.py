"""The way of one node to a store: a call travels, has its effect in the world, and is answered.

The effect and the answer belong to the world, not to the caller: a request on its way arrives even
if the caller is paused, cancelled or killed meanwhile.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from contextvars import Context
from enum import Enum
from typing import Any, TypeVar

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.rates import StoreRates

T = TypeVar("T")

LATE_S_MAX = 2.0
"""How long after its error a late effect may come."""


class Fate(Enum):
    """What becomes of a call."""

    DONE = "done"
    REFUSED = "refused"
    LOST = "lost"
    DROPPED = "dropped"
    LATE = "late"


class Line:
    """`refused` and `unknown` make the errors that the store's interface has for it."""

    def __init__(
        self,
        loop: SimLoop,
        node: Node,
        chance: Chance,
        rates: Callable[[], StoreRates],
        refused: Callable[[str], Exception],
        unknown: Callable[[str], Exception],
    ) -> None:
        self._loop = loop
        self._node = node
        self._chance = chance
        self._rates = rates
        self._refused = refused
        self._unknown = unknown
        self._world = Context()
        self.cut_until_s = 0.0
        """Until then nothing gets through."""

    async def call(self, what: str, effect: Callable[[], T], *, changes: bool) -> T:
        """Send a call and wait for its answer; one that `changes` nothing cannot be ambiguous."""
        await pass_pause(self._loop, self._node)
        answer: Future[T] = self._loop.create_future()
        if not self._node.dead:
            fate = self._draw(changes)
            self._later(self._delay_s(), self._arrive, what, fate, effect, answer)
        return await answer

    def _draw(self, changes: bool) -> Fate:
        rates = self._rates()
        point = self._chance.random()
        for fate, rate in (
            (Fate.REFUSED, rates.refused),
            (Fate.LOST, rates.lost),
            (Fate.DROPPED, rates.dropped),
            (Fate.LATE, rates.late),
        ):
            if point < rate:
                return fate if changes else Fate.REFUSED
            point -= rate
        return Fate.DONE

    def _delay_s(self) -> float:
        rates = self._rates()
        if self._chance.happens(rates.slow):
            return self._chance.random() * rates.slow_s
        return self._chance.random() * rates.delay_s

    def _later(self, delay_s: float, callback: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(delay_s, callback, *args, context=self._world)

    def _arrive(
        self, what: str, fate: Fate, effect: Callable[[], Any], answer: Future[Any]
    ) -> None:
        if self._loop.time() < self.cut_until_s:
            fate = Fate.REFUSED
        if fate is Fate.REFUSED:
            self._answer(answer, error=self._refused(f"{what}: simulated refusal"))
            return
        if fate is Fate.DROPPED or fate is Fate.LATE:
            if fate is Fate.LATE:
                self._later(self._chance.random() * LATE_S_MAX, _quietly, effect)
            self._answer(answer, error=self._unknown(f"{what}: simulated silence"))
            return
        try:
            result = effect()
        except Exception as error:  # noqa: BLE001 - whatever the store answers is passed on
            self._answer(answer, error=error)
            return
        if fate is Fate.LOST:
            self._answer(answer, error=self._unknown(f"{what}: simulated loss of the answer"))
        else:
            self._answer(answer, result)

    def _answer(
        self, answer: Future[Any], result: Any = None, *, error: Exception | None = None
    ) -> None:
        self._later(self._delay_s(), _settle, answer, result, error)


async def pass_pause(loop: SimLoop, node: Node) -> None:
    """If the process was stopped in the middle of a step, what it sends leaves when it goes on."""
    if node.paused:
        gate: Future[None] = loop.create_future()
        loop.call_soon(gate.set_result, None, context=node.context)
        await gate


def _settle(answer: Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)
        answer.exception()  # Nobody may be left to retrieve it.


def _quietly(effect: Callable[[], Any]) -> None:
    try:
        effect()
    except Exception:  # noqa: BLE001 - nobody hears the answer of a late call
        return
