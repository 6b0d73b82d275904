"""An event loop in virtual time: no threads, no sockets, no chance of its own.

Handles run in the order in which they were scheduled, timers in the order of their time. When
nothing is ready, time jumps to the next timer. Every handle belongs to the node that its context
names, so a whole simulated process can be paused (its handles are held back, as `SIGSTOP` would) or
killed (they never run again).
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

START_S = 1_000.0
STEPS_MAX = 3_000_000
"""Handles that one run may take; beyond it something turns in circles without time passing."""


DEMOLITION_STEPS_MAX = 50_000
"""Handles that the end of a run may take."""


class Node:
    """One simulated process, as far as the loop is concerned."""

    __slots__ = ("context", "dead", "held", "name", "paused")

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused = False
        self.dead = False
        self.held: list[events.Handle] = []
        """What has become ready while the node was paused; of a dead node, kept until the end, so
        that no coroutine of it is closed (and runs its `finally`) while the run goes on."""
        self.context = copy_context()
        self.context.run(OWNER.set, self)


OWNER: ContextVar[Node | None] = ContextVar("simulated_node", default=None)
"""Whose code is running; None is the world around the nodes (stores, network, clients)."""


class SimulationStuck(Exception):
    """Nothing is left to run, or nothing but the same step again and again."""


class SimTask(asyncio.Task[T]):
    """A task whose hash is its number: sets of tasks have the same order in every process."""

    def __init__(
        self, coroutine: Any, number: int, loop: SimLoop, name: Any, context: Context | None
    ) -> None:
        self._number = number
        super().__init__(coroutine, loop=loop, name=name, context=context)
        # Tasks of a killed node stay pending for ever, and that is no mistake.
        self._log_destroy_pending = False

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimLoop(asyncio.BaseEventLoop):
    """See the module. `run_until_complete` drives it; nothing else may."""

    def __init__(self) -> None:
        super().__init__()
        self._now = START_S
        self._queue: deque[tuple[Node | None, events.Handle]] = deque()
        self._timers: list[tuple[float, int, Node | None, events.TimerHandle]] = []
        self._count = 0
        self._task_count = 0
        self.steps = 0
        self.halted = False
        """Set to end the run at once."""
        self._nodes: list[Node] = []
        self.tasks: list[SimTask[Any]] = []
        self.complaints: list[str] = []
        """What the loop's exception handler was told."""

    # What asyncio asks of a loop

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.Handle:
        handle = events.Handle(callback, args, self, context)
        self._queue.append((OWNER.get() if context is None else context.get(OWNER), handle))
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> events.TimerHandle:
        handle = events.TimerHandle(when, callback, args, self, context)
        owner = OWNER.get() if context is None else context.get(OWNER)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, owner, handle))
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> events.Handle:
        raise AssertionError("the simulation has no threads")

    def create_task(  # type: ignore[override]
        self,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> SimTask[T]:
        self._task_count += 1
        # A plain number as name: asyncio's own counter would differ between two runs.
        name = name or f"task-{self._task_count}"
        task: SimTask[T] = SimTask(coroutine, self._task_count, self, name, context)
        self.tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_closed():
            error = context.get("exception")
            self.complaints.append(f"{context.get('message')}: {error!r}")

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """Cancelled timers are skipped when their time comes."""

    # Driving

    def run_until_complete(self, future: Any) -> Any:
        """Run until the coroutine is done, or the run is halted (then the result is None)."""
        task = self.create_task(future)
        events._set_running_loop(self)
        try:
            while not task.done() and not self.halted:
                self._turn()
        finally:
            events._set_running_loop(None)
        return task.result() if task.done() else None

    def _turn(self) -> None:
        if not self._queue:
            self._advance()
        self._collect_due()
        queue = self._queue
        for _ in range(len(queue)):
            owner, handle = queue.popleft()
            if handle._cancelled:
                continue
            if owner is not None and (owner.paused or owner.dead):
                owner.held.append(handle)
                continue
            self.steps += 1
            handle._run()
            if self.halted:
                return
        if self.steps > STEPS_MAX:
            raise SimulationStuck(f"more than {STEPS_MAX} steps by {self._now - START_S:.3f} s")

    def _advance(self) -> None:
        timers = self._timers
        while timers and timers[0][3]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise SimulationStuck("nothing is left that could ever run")
        self._now = max(self._now, timers[0][0])

    def _collect_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            _, _, owner, handle = heapq.heappop(timers)
            if not handle._cancelled:
                self._queue.append((owner, handle))

    def resume(self, node: Node) -> None:
        """Let a paused node go on with everything that has become ready meanwhile."""
        node.paused = False
        held, node.held = node.held, []
        self._queue.extend((node, handle) for handle in held)

    def node(self, name: str) -> Node:
        """A new node."""
        node = Node(name)
        self._nodes.append(node)
        return node

    def demolish(self) -> None:
        """After the run: let every coroutine end, so that none is closed by the garbage collector.

        Everybody runs again, dead or paused, until all have taken notice of their cancellation.
        """
        for node in self._nodes:
            node.dead = False
            self.resume(node)
        self.halted = False
        last_step = self.steps + DEMOLITION_STEPS_MAX
        events._set_running_loop(self)
        pending: list[SimTask[Any]] = []
        cancelled = 0
        try:
            while self.steps < last_step:
                # Those that end may begin new ones.
                for task in self.tasks[cancelled:]:
                    task.cancel()
                    pending.append(task)
                cancelled = len(self.tasks)
                pending = [task for task in pending if not task.done()]
                if not pending:
                    break
                self._turn()
        except SimulationStuck:
            pass  # What is left waits for something that nobody will do.
        finally:
            events._set_running_loop(None)
        self.close()
        self.tasks.clear()
