"""A broker's metadata store: `MemoryStore` on the shared state, behind a line that fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from tests.faults.simulation.chance import Chance
from tests.faults.simulation.line import Line
from tests.faults.simulation.loop import Node, SimLoop
from tests.faults.simulation.rates import Rates
from tests.faults.simulation.state import SharedState

from towpath.metadata.memory import MemoryStore
from towpath.metadata.rules import check_session_ttl
from towpath.metadata.store import (
    ANY,
    Append,
    Change,
    Committed,
    Condition,
    Expect,
    KeyValue,
    MetadataStore,
    OutcomeUnknown,
    Put,
    Session,
    StoreUnavailable,
    Tail,
    Watch,
    WatchCallback,
)
from towpath.runtime import Runtime

T = TypeVar("T")
RENEWALS_PER_TTL = 3


def now(call: Awaitable[T]) -> T:
    """The result of a coroutine that never waits."""
    steps = call.__await__()
    try:
        next(steps)
    except StopIteration as finished:
        result: T = finished.value
        return result
    raise AssertionError("a memory store does not wait")


class _Feed(MemoryStore):
    """The memory store, with its deliveries to watchers left to the wrapper."""

    def __init__(self, runtime: Runtime, state: SharedState, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        super().__init__(runtime, state)

    def _changed(self, changes: tuple[Change, ...]) -> None:
        self._pending.append(changes)
        self._on_change()

    def _drain(self) -> None:
        """A write of our own does not deliver by itself."""

    def deliver(self) -> None:
        """Call the watchers with everything that waits."""
        super()._drain()

    def lose(self) -> None:
        """Forget what waits; the next delivery is a resync."""
        if self._pending:
            self._pending.clear()
            self._resync = True


class SimSession(Session):
    """A session whose renewals travel like every other call."""

    def __init__(
        self, loop: SimLoop, line: Line, state: SharedState, session_id: int, ttl_ms: int
    ) -> None:
        self.session_id = session_id
        self._loop = loop
        self._line = line
        self._state = state
        self._interval_s = ttl_ms / RENEWALS_PER_TTL / 1000
        self._over = False
        self._closed = False
        self._timer = loop.call_later(self._interval_s, self._due)

    @property
    def expired(self) -> bool:
        return self._over and not self._closed

    async def close(self) -> None:
        self._closed = True
        self._timer.cancel()
        end = self._state.end_session
        await self._line.call("close session", lambda: end(self.session_id), changes=True)

    def _due(self) -> None:
        if not self._closed:
            self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        renew = self._state.renew
        try:
            alive = await self._line.call("renew", lambda: renew(self.session_id), changes=False)
        except StoreUnavailable:
            alive = True  # Nobody knows; the next renewal will tell.
        self._over = not alive
        if alive and not self._closed:
            self._timer = self._loop.call_later(self._interval_s, self._due)


class SimStore(MetadataStore):
    """One broker's client of the shared metadata, with the faults that the rates say."""

    def __init__(
        self,
        loop: SimLoop,
        node: Node,
        runtime: Runtime,
        state: SharedState,
        rates: Rates,
        chance: Chance,
        *,
        eager_watch: bool,
        of_compactor: bool = False,
    ) -> None:
        self._loop = loop
        self._node = node
        self._rates = rates
        self._chance = chance
        self._state = state
        self._eager_watch = eager_watch
        """Whether the watchers have seen a write of this store when it returns."""
        self.line = Line(
            loop,
            node,
            chance.child("line"),
            lambda: rates.tasks if of_compactor else rates.metadata,
            StoreUnavailable,
            OutcomeUnknown,
        )
        self.on_put: Callable[[str], None] = lambda key: None
        """Called with the key of each put that is about to leave."""
        self.on_write: Callable[[Sequence[tuple[str, bytes]]], None] | None = None
        """Called with all puts of each write that is about to leave."""
        self.barrier_s = 0.0
        """What was written before this time, the watchers have been told of."""
        self._delivery_due = False
        self._feed = _Feed(runtime, state, self._on_change)

    # Reads

    async def get(self, key: str) -> KeyValue | None:
        return await self.line.call("get", lambda: now(self._feed.get(key)), changes=False)

    async def scan(self, start: str, end: str, *, limit: int = 1000) -> list[KeyValue]:
        return await self.line.call(
            "scan", lambda: now(self._feed.scan(start, end, limit=limit)), changes=False
        )

    async def first_above(self, key: str, end: str) -> KeyValue | None:
        return await self.line.call(
            "first_above", lambda: now(self._feed.first_above(key, end)), changes=False
        )

    async def last(self, start: str, end: str) -> KeyValue | None:
        return await self.line.call("last", lambda: now(self._feed.last(start, end)), changes=False)

    async def tails(self, stream_ids: Sequence[int]) -> list[Tail]:
        asked = tuple(stream_ids)
        return await self.line.call("tails", lambda: now(self._feed.tails(asked)), changes=False)

    # Writes

    async def put(
        self, key: str, value: bytes, *, expect: Expect = ANY, session: Session | None = None
    ) -> int:
        self.on_put(key)
        if self.on_write is not None:
            self.on_write([(key, value)])
        return await self._write(
            "put", lambda: now(self._feed.put(key, value, expect=expect, session=session))
        )

    async def delete(self, key: str, *, expect: Expect = ANY) -> bool:
        return await self._write("delete", lambda: now(self._feed.delete(key, expect=expect)))

    async def commit(
        self,
        domain: int,
        *,
        appends: Sequence[Append] = (),
        puts: Sequence[Put] = (),
        deletes: Sequence[str] = (),
        expect: Sequence[Condition] = (),
    ) -> Committed:
        if self.on_write is not None:
            self.on_write([(put.key, put.value) for put in puts])
        # The caller's sequences are copied: it may change them while the write travels.
        options: dict[str, Any] = {
            "appends": tuple(appends),
            "puts": tuple(puts),
            "deletes": tuple(deletes),
            "expect": tuple(expect),
        }
        return await self._write("commit", lambda: now(self._feed.commit(domain, **options)))

    async def _write(self, what: str, effect: Callable[[], T]) -> T:
        sent_s = self._loop.time()

        def arrive() -> T:
            self._state.sent_s = sent_s
            return effect()

        result = await self.line.call(what, arrive, changes=True)
        if self._eager_watch:
            self._feed.deliver()
        return result

    # Watches and sessions

    def watch(self, prefix: str, callback: WatchCallback) -> Watch:
        return self._feed.watch(prefix, callback)

    async def barrier(self) -> None:
        arrived_s = await self.line.call("barrier", self._loop.time, changes=False)
        self._feed.deliver()
        self.barrier_s = max(self.barrier_s, arrived_s)

    async def open_session(self, ttl_ms: int) -> Session:
        check_session_ttl(ttl_ms)
        session_id = await self.line.call(
            "open session", lambda: self._state.open_session(ttl_ms), changes=True
        )
        return SimSession(self._loop, self.line, self._state, session_id, ttl_ms)

    async def probe(self) -> None:
        await self.line.call("probe", lambda: None, changes=False)

    async def close(self) -> None:
        self.crash()

    def crash(self) -> None:
        """Hear of no change any more; sessions end when their time is over."""
        self._feed.crash()

    def lose_feed(self) -> None:
        """The feed breaks now: what waits for delivery is lost, and a resync follows."""
        self._feed.lose()

    def _on_change(self) -> None:
        if not self._delivery_due and not self._node.dead:
            self._delivery_due = True
            rates = self._rates.watch
            slow = self._chance.happens(rates.slow)
            delay_s = self._chance.random() * (rates.slow_s if slow else rates.delay_s)
            self._deliver_later(delay_s)

    def _deliver_later(self, delay_s: float) -> None:
        self._loop.call_later(delay_s, self._deliver, context=self._node.context)

    def _deliver(self) -> None:
        rates = self._rates.watch
        if self._chance.happens(rates.lost):
            self._feed.lose()
            self._deliver_later(self._chance.random() * rates.slow_s)
            return
        self._delivery_due = False
        self._feed.deliver()
