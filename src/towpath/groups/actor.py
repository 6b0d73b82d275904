"""One group at one broker: steps run one after the other, and are stored together.

All steps that wait when the actor turns to them are applied to one state and written by one
compare-and-set. If another broker was faster, the group is read again and the steps are repeated;
they are pure functions. There is a task only while there is something to do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from towpath.errors import GroupUnavailable
from towpath.groups.cached import CachedGroup
from towpath.groups.duty import RETRY_MS, Duty
from towpath.groups.interface import GroupView
from towpath.groups.leases import GroupLeases
from towpath.groups.registration import Asked, Registration
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Step
from towpath.groups.store import GroupStore, Stored
from towpath.groups.waiters import Waiters
from towpath.metadata.store import (
    KeyIs,
    MetadataError,
    MetadataStore,
    OutcomeUnknown,
    VersionConflict,
)
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime
from towpath.topics.interface import Topics

R = TypeVar("R")

ATTEMPTS_MAX = 30
"""How often steps are repeated after conflicts before their callers are told to try again."""
BATCH_MAX_STEPS = 1_000
QUEUE_MAX_STEPS = 20_000
"""Steps that may wait at one group; more are refused."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all groups of a broker use."""

    store: MetadataStore
    groups: GroupStore
    leases: GroupLeases
    runtime: Runtime
    topics: Topics
    settings: GroupSettings
    metrics: Metrics
    registration: Registration

    def env(self, settings: GroupSettings) -> Env:
        """What a step sees now."""
        clock = self.runtime.clock
        return Env(
            now_ms=clock.monotonic_ms(),
            wall_ms=clock.now_ms(),
            settings=settings,
            topics=self.topics,
            new_member_id=lambda prefix: f"{prefix}-{self.runtime.uuid4()}",
        )


@dataclass(frozen=True, slots=True)
class _Queued:
    """A step and who waits for its answer."""

    step: Step[Any]
    answer: asyncio.Future[Any]
    alive: KeyIs | None
    """This broker's registration when the step was asked for."""


@dataclass(frozen=True, slots=True)
class _Done:
    """What a batch of steps has come to: answer or failure of each, and blobs that may go."""

    answers: list[tuple[Any, BaseException | None]]
    garbage: tuple[str, ...]


def _queued(step: Step[Any], alive: KeyIs | None) -> _Queued:
    return _Queued(step, asyncio.get_running_loop().create_future(), alive)


class GroupActor:
    """The queue, the cache, the waiters and the duty of one group."""

    def __init__(self, group_id: str, shared: Shared) -> None:
        self.group_id = group_id
        self.used_ms = 0
        """When somebody last asked for the group; the coordinator's business."""
        self._shared = shared
        self._cache = CachedGroup(group_id, shared.groups, shared.settings)
        self._turn = asyncio.Lock()
        """Held while the cache is read or written."""
        self._shown: GroupView | None = None
        self._queue: deque[_Queued] = deque()
        self._waiters = Waiters()
        self._worker: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False
        self.duty = Duty(
            group_id,
            shared.store,
            shared.groups,
            shared.leases,
            shared.runtime.clock,
            self._wake,
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when this actor is forgotten."""
        busy = self._queue or len(self._waiters) or self._worker is not None or self._turn.locked()
        return not busy and self.duty.is_idle

    # What callers ask

    async def view(self) -> GroupView:
        """The group after every change that was committed before the call."""
        await self._shared.store.barrier()
        if not self._cache.is_fresh:
            async with self._turn:
                await self._freshen()
        return self._cache.view

    @property
    def remembered(self) -> GroupView | None:
        """The group as it is in memory, unless something newer was told of."""
        return self._cache.view if self._cache.is_fresh else None

    async def apply(self, step: Step[R], asked: Asked) -> R:
        """Run the step in its turn; see `Groups.apply`."""
        if self._closed or len(self._queue) >= QUEUE_MAX_STEPS:
            raise self._unavailable()
        queued = _queued(step, asked.alive)
        self._queue.append(queued)
        self._wake()
        answer: R = await queued.answer
        return answer

    async def until(
        self, look: Callable[[GroupState | None], R | None], member_id: str | None
    ) -> R:
        """Wait for a state; see `Groups.until`."""
        if not self._cache.is_fresh:
            async with self._turn:
                await self._freshen()
        found = look(self._cache.stored.state)
        if found is not None:
            return found
        if self._closed:
            raise self._unavailable()
        if member_id is not None:
            self.duty.begin_wait(member_id)
        try:
            return await self._waiters.wait(look)
        finally:
            if member_id is not None:
                self.duty.end_wait(member_id)

    def seen(self, member_id: str) -> None:
        """The member is alive."""
        state = self._cache.stored.state
        if state is not None and state.has_member(member_id):
            self.duty.note(member_id)

    def adopt(self) -> None:
        """Look at the group, which nobody serves, and take its lease if there is need of one."""
        self._cache.lose_track()
        self._wake()

    # What the watch tells

    def root_changed(self, version: int | None) -> None:
        """The root was changed or deleted, by whomever."""
        self._cache.root_changed(version)
        self._wake()

    def config_changed(self) -> None:
        """The group's own settings were changed."""
        self._cache.config_changed()
        self._wake()

    def lose_track(self) -> None:
        """Changes may have been missed."""
        self._cache.lose_track()
        self.duty.lose_track()
        self._wake()

    # The worker

    def _wake(self) -> None:
        if self._worker is None and not self._closed and self._has_work():
            name = f"group-{self.group_id}"
            self._worker = asyncio.create_task(self._work(), name=name)

    def _has_work(self) -> bool:
        return bool(self._queue) or self._must_follow() or self.duty.has_work

    def _must_follow(self) -> bool:
        """Whether somebody here depends on newer states than the one in memory."""
        return not self._cache.is_fresh and self._pause is None

    async def _work(self) -> None:
        try:
            while self._has_work():
                if self._queue:
                    await self._run_queue()
                elif self._must_follow():
                    await self._follow()
                if self.duty.has_work:
                    await self._tend()
        finally:
            self._worker = None

    async def _run_queue(self) -> None:
        count = min(len(self._queue), BATCH_MAX_STEPS)
        await self._run([self._queue.popleft() for _ in range(count)])

    async def _follow(self) -> None:
        try:
            async with self._turn:
                await self._freshen()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again.
            _log.warning("a group cannot be read", group=self.group_id, error=repr(error))
            loop = asyncio.get_running_loop()
            self._pause = loop.call_later(RETRY_MS / 1000, self._unpause)

    def _unpause(self) -> None:
        self._pause = None
        self._wake()

    async def _tend(self) -> None:
        due = await self.duty.work()
        if not due:
            return
        alive = self._shared.registration()
        queued = [_queued(self.duty.guarded(timer), alive) for timer in due]
        await self._run(queued, self.duty.lease)
        succeeded = all(one.answer.exception() is None for one in queued)
        ran = [t for t, one in zip(due, queued, strict=True) if succeeded and one.answer.result()]
        self.duty.ran(ran, succeeded=succeeded)

    # Steps

    async def _run(self, batch: list[_Queued], lease: KeyIs | None = None) -> None:
        """Apply and store the steps, answer their callers, and tidy up. Those of timers are stored
        only while this broker has the lease."""
        try:
            async with self._turn:
                done = await self._store_steps(batch, lease)
        except BaseException as error:
            self._fail(batch, error)
            if not isinstance(error, Exception):
                raise
            return
        for queued, (answer, failure) in zip(batch, done.answers, strict=True):
            if queued.answer.done():
                continue
            if failure is None:
                queued.answer.set_result(answer)
            else:
                queued.answer.set_exception(failure)
                queued.answer.exception()  # Nobody may be listening.
        if done.garbage:
            await self._collect(done.garbage)

    def _fail(self, batch: list[_Queued], error: BaseException) -> None:
        """Tell the callers that their steps could not be stored."""
        if not isinstance(error, GroupUnavailable):
            _log.warning("a group cannot be changed", group=self.group_id, error=repr(error))
        for queued in batch:
            if not queued.answer.done():
                queued.answer.set_exception(self._unavailable())
                queued.answer.exception()  # Nobody may be listening.

    async def _store_steps(self, batch: list[_Queued], lease: KeyIs | None) -> _Done:
        """Repeat until the steps' common result is stored."""
        for _ in range(ATTEMPTS_MAX):
            await self._shared.store.barrier()
            await self._freshen()
            old, alive = self._cache.stored, self._shared.registration()
            answers, state = self._apply(batch, old.state, alive)
            if state is old.state:
                return _Done(answers, ())
            conditions = [condition for condition in (lease, alive) if condition is not None]
            new = await self._save(old, state, str(self._shared.runtime.uuid4()), conditions)
            if new is None:
                if lease is not None:
                    self.duty.lease_changed(None)  # Perhaps it has.
                continue
            self._count(old.state, state)
            self._show()
            if new.is_dead:
                await self._finish_deletion(new)
            return _Done(answers, tuple(name for name in old.blobs if name not in new.blobs))
        raise GroupUnavailable(f"group {self.group_id!r} is changed by too many at once")

    def _count(self, old: GroupState | None, new: GroupState | None) -> None:
        """A higher generation or epoch is a rebalance, told by whoever has stored it."""
        if new is not None and new.epoch > (0 if old is None else old.epoch):
            self._shared.metrics.group_rebalances.labels(new.KIND).inc()

    async def _save(
        self, old: Stored, state: GroupState | None, writer: str, conditions: Sequence[KeyIs]
    ) -> Stored | None:
        """What is stored now, or None if another broker has changed the group, or a condition does
        not hold."""
        try:
            new = await self._shared.groups.save(self.group_id, old, state, writer, conditions)
        except VersionConflict:
            self._cache.lose_track()
            return None
        except OutcomeUnknown:
            self._cache.lose_track()
            await self._freshen()
            return self._cache.stored if self._cache.stored.writer == writer else None
        self._cache.wrote(new)
        return new

    def _apply(
        self, batch: list[_Queued], state: GroupState | None, alive: KeyIs | None
    ) -> tuple[list[tuple[Any, BaseException | None]], GroupState | None]:
        """The answers and the state after all steps. A step that raises changes nothing, nor does
        one that was asked for before this broker was taken for dead."""
        env = self._shared.env(self._cache.settings)
        answers: list[tuple[Any, BaseException | None]] = []
        for queued in batch:
            if queued.alive != alive:
                answers.append((None, self._unavailable()))
                continue
            try:
                outcome = queued.step(state, env)
            except Exception as error:  # noqa: BLE001 - the caller of this step is told.
                answers.append((None, error))
            else:
                state = outcome.group
                answers.append((outcome.answer, None))
        return answers, state

    async def _finish_deletion(self, dead: Stored) -> None:
        """Remove the deleted group's offsets. What fails is finished by whoever comes next."""
        try:
            await self._shared.groups.finish(self.group_id, dead)
        except MetadataError as error:
            _log.warning("a deleted group's keys are left", group=self.group_id, error=str(error))

    async def _collect(self, names: Sequence[str]) -> None:
        """Delete what the root does not name any more. What fails is left to a sweep."""
        try:
            await self._shared.groups.collect(self.group_id, names)
        except MetadataError as error:
            _log.info("old blobs of a group are left", group=self.group_id, error=str(error))

    # The cache

    async def _freshen(self) -> None:
        """Read what is not fresh; the caller has the turn."""
        if not self._cache.is_fresh:
            await self._cache.read()
        self._show()

    def _show(self) -> None:
        """Let everybody here know a new state."""
        view = self._cache.view
        shown, self._shown = self._shown, view
        if shown is not None and shown.state is view.state and shown.settings is view.settings:
            return
        self.duty.state_changed(view.state, view.settings)
        self._waiters.show(view.state)

    async def close(self) -> None:
        """Stop; whoever waits is told that the group is not available here."""
        self._closed = True
        self.duty.stop()
        if self._pause is not None:
            self._pause.cancel()
        worker = self._worker
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        self._waiters.fail(self._unavailable())
        self._fail(list(self._queue), self._unavailable())
        self._queue.clear()

    def _unavailable(self) -> GroupUnavailable:
        return GroupUnavailable(f"group {self.group_id!r} is not available at this broker now")
