"""What time demands of one group: the lease, and with it the timers, or else digests.

`Duty` is driven by its actor: calls note what is due and wake the actor, and `work` does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from towpath.groups.leases import FoundLease, GroupLeases
from towpath.groups.seen import DIGESTS_PER_SESSION, Seen
from towpath.groups.settings import GroupSettings
from towpath.groups.state import GroupState
from towpath.groups.step import Env, Outcome, Step, Timer
from towpath.groups.store import GroupStore
from towpath.groups.timers import LATE_MS, Timers
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import SeenDigest
from towpath.metadata.store import KeyIs, KeyValue, MetadataStore, prefix_end
from towpath.runtime import Clock

RETRY_MS = 250
"""The pause after the store failed."""
DIGEST_MIN_INTERVAL_MS = 200
"""Between two digests, and before the one that tells of a member that has just turned up."""

_log = structlog.get_logger(__name__)


class Duty:
    """The lease of one group and what follows from having it, or from not having it."""

    def __init__(
        self,
        group_id: str,
        store: MetadataStore,
        groups: GroupStore,
        leases: GroupLeases,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._group_id = group_id
        self._store = store
        self._groups = groups
        self._leases = leases
        self._clock = clock
        self._wake = wake
        self.seen = Seen()
        self._timers = Timers(self.seen)
        # The lease
        self._lease: FoundLease | None = None
        self._lease_is_known = False
        self._sweep_is_due = False
        # Timers
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._timers_are_due = False
        # Digests
        self._digests: set[int] = set()
        """The brokers whose digests have changed since they were read."""
        self._has_gap = False
        """Whether digests may have been missed: all have to be read."""
        self._learned: dict[str, int] = {}
        """By key, the version of the digest that was last read."""
        self._digest_timer: asyncio.TimerHandle | None = None
        self._digest_at_ms = 0
        self._digest_is_due = False
        self._has_told = False
        self._shortest_session_ms = 0
        self._paused: asyncio.TimerHandle | None = None

    # What is asked and told

    @property
    def is_holder(self) -> bool:
        """Whether this broker had the lease when it last looked."""
        return self._lease is not None and self._lease.is_mine

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be missed if this broker forgot the group."""
        return not (self.has_work or self.seen.has_news or (self.is_holder and self._timers.any))

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do."""
        return self._paused is None and (
            self._wants_lease
            or self._sweep_is_due
            or self._timers_are_due
            or self._digest_is_due
            or self._has_unread_digests
        )

    @property
    def _wants_lease(self) -> bool:
        """Whether somebody must run the group's timers, and this broker does not know that anybody
        does. Nobody did, perhaps, while there were none."""
        return self._timers.any and (not self._lease_is_known or self._lease is None)

    @property
    def _has_unread_digests(self) -> bool:
        return bool(self._digests) or self._has_gap

    def state_changed(self, state: GroupState | None, settings: GroupSettings) -> None:
        """The group has a new state, or new settings."""
        members = frozenset() if state is None else frozenset(state.member_ids)
        self.seen.keep_only(members)
        self._timers.update(() if state is None else state.timers(settings), self._now())
        self._shortest_session_ms = min(
            (state.session_timeout_ms(m, settings) for m in state.member_ids) if state else (),
            default=0,
        )
        if self.is_holder:
            self._schedule()
        if self.has_work:
            self._wake()

    def lease_changed(self, version: int | None) -> None:
        """The watch tells of the lease; None: it has vanished."""
        if self._lease is not None and self._lease.version == version:
            return
        self._lease_is_known = False
        self._wake()

    def digest_changed(self, broker_id: int) -> None:
        """The watch tells of another broker's digest."""
        self._digests.add(broker_id)
        self._wake()

    def lose_track(self) -> None:
        """The watch has a gap."""
        self._lease_is_known = False
        self._has_gap = True
        self._wake()

    def note(self, member_id: str) -> None:
        """A member talks to this broker."""
        now_ms = self._now()
        silence_ms = self.seen.silence_ms(member_id, now_ms)
        self.seen.note(member_id, now_ms)
        self._plan_digest(silence_ms)

    def begin_wait(self, member_id: str) -> None:
        """A request of the member waits here."""
        silence_ms = self.seen.silence_ms(member_id, self._now())
        self.seen.begin_wait(member_id)
        self._plan_digest(silence_ms)

    def end_wait(self, member_id: str) -> None:
        """It waits no longer."""
        self.seen.end_wait(member_id, self._now())

    # Work

    async def work(self) -> list[Timer]:
        """Do what is due; returns the timers whose steps are to be run, see `ran`."""
        try:
            return await self._work()
        except Exception as error:  # noqa: BLE001 - a store may fail in any way; it is tried again.
            _log.warning("a group cannot be tended", group=self._group_id, error=repr(error))
            self._pause()
            return []

    def guarded(self, timer: Timer) -> Step[bool]:
        """The step of a timer that is due, to be run and stored under `lease`; it answers whether
        it was run. It is not if the member was seen since somebody looked, or if the lease was lost
        or a digest came that is not read yet: then the timer is looked at again."""

        def step(state: GroupState | None, env: Env) -> Outcome[bool]:
            certain = self.is_holder and self._lease_is_known and not self._has_unread_digests
            if not certain or not self._timers.is_due(timer, self._now()):
                return Outcome(state, False)
            return Outcome(timer.step(state, env).group, True)

        return step

    @property
    def lease(self) -> KeyIs | None:
        """The condition that this broker still has the lease that it had when it last looked."""
        if self._lease is None or not self._lease.is_mine:
            return None
        return KeyIs(keys.lease(self._group_id), self._lease.version)

    def ran(self, timers: list[Timer], *, succeeded: bool) -> None:
        """The steps of these timers were run; the others that were due are looked at again, after a
        pause unless all went well."""
        self._timers.ran(timers, self._now())
        if not succeeded:
            self._pause()
        self._schedule()

    async def _work(self) -> list[Timer]:
        if self._wants_lease or not self._lease_is_known:
            await self._settle_lease()
        if self._sweep_is_due:
            self._sweep_is_due = False
            await self._groups.sweep(self._group_id)
        due: list[Timer] = []
        if self._timers_are_due:
            due = await self._due_timers()
        if self._has_unread_digests:
            await self._read_digests()
        if self._digest_is_due:
            await self._tell_digest()
        return due

    async def release(self) -> None:
        """Leave the group to others: the actor is being forgotten."""
        if self.is_holder:
            await self._leases.release(self._group_id)
        if self._has_told:
            await self._leases.untell(self._group_id)

    def stop(self) -> None:
        """Cancel every timer."""
        for timer in (self._timer, self._digest_timer, self._paused):
            if timer is not None:
                timer.cancel()

    # The lease

    async def _settle_lease(self) -> None:
        """Know who has the lease, and take it if nobody does."""
        self._lease_is_known = True  # What is told of from now on makes it unknown again.
        before = self.lease
        try:
            found = await self._leases.find(self._group_id)
            if found is None and self._timers.any:
                found = await self._leases.take(self._group_id)
                if found is None:
                    self._lease_is_known = False
                    self._pause()
        except BaseException:
            self._lease_is_known = False
            raise
        self._lease = found
        # A lease that was lost and taken again is another one: nobody knows what was missed.
        if self.is_holder and self.lease != before:
            self._timers.restart(self._now())
            self._sweep_is_due = True
        elif not self.is_holder and self.seen.has_news:
            # Members that wait here say nothing more by themselves.
            self._plan_digest(None)
        self._schedule()

    # Timers

    def _schedule(self) -> None:
        """Wake up when the next timer is due, if this broker holds the lease."""
        if self._timer is not None:
            self._forgive_sleep()
            self._timer.cancel()
            self._timer = None
        if not self.is_holder:
            self._timers_are_due = False
            return
        now_ms = self._now()
        at_ms = self._timers.next_ms(now_ms)
        if at_ms is not None:
            self._timer_at_ms = max(at_ms, now_ms)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0, at_ms - now_ms) / 1000, self._timer_fired)

    def _timer_fired(self) -> None:
        self._forgive_sleep()
        self._timer = None
        self._timers_are_due = True
        self._wake()

    def _forgive_sleep(self) -> None:
        """If the timer is so late that this broker must have slept, hold nobody to account for that
        time: it could hear nobody."""
        now_ms = self._now()
        late_ms = now_ms - self._timer_at_ms
        if late_ms > LATE_MS:
            self._timers.forgive(late_ms, now_ms)
            self._timer_at_ms = now_ms

    async def _due_timers(self) -> list[Timer]:
        """What is due, if the lease is still ours and everything that was told is known."""
        await self._store.barrier()
        found = await self._leases.find(self._group_id)
        if found is None or not found.is_mine:
            self._lease_is_known = False
            self._timers_are_due = False
            return []
        await self._read_digests()
        self._timers_are_due = False
        due = self._timers.due(self._now())
        if not due:
            self._schedule()
        return due

    # Digests

    async def _read_digests(self) -> None:
        """Learn from the holder's point of view what the others have seen."""
        while self._has_gap:
            self._has_gap = False  # What is missed from now on makes it one again.
            try:
                await self._read_all_digests()
            except BaseException:
                self._has_gap = True
                raise
        while self._digests:
            broker_id = min(self._digests)
            self._digests.discard(broker_id)
            try:
                await self._read_digest(broker_id)
            except BaseException:
                self._digests.add(broker_id)
                raise

    async def _read_all_digests(self) -> None:
        if self.is_holder:
            prefix = keys.seen_prefix(self._group_id)
            for row in await self._store.scan(prefix, prefix_end(prefix)):
                self._learn(row)

    async def _read_digest(self, broker_id: int) -> None:
        if self.is_holder:
            found = await self._store.get(keys.seen(self._group_id, broker_id))
            if found is not None:
                self._learn(found)

    def _learn(self, row: KeyValue) -> None:
        """Take in a digest, unless it is known: what it tells would seem to have just happened. It
        may be newer than whatever made this broker read it, so its ages count from now on."""
        if self._learned.get(row.key) != row.version:
            self._learned[row.key] = row.version
            self.seen.learn(SeenDigest.decode(row.value), self._now())

    def _plan_digest(self, silence_ms: int | None) -> None:
        """Tell the holder in time that a member is here, if another broker is the holder."""
        if self.is_holder or self._digest_is_due:
            return
        now_ms = self._now()
        interval_ms = max(DIGEST_MIN_INTERVAL_MS, self._shortest_session_ms // DIGESTS_PER_SESSION)
        turned_up = silence_ms is None or silence_ms > interval_ms
        at_ms = now_ms + (DIGEST_MIN_INTERVAL_MS if turned_up else interval_ms)
        if self._digest_timer is not None:
            if self._digest_at_ms <= at_ms:
                return
            self._digest_timer.cancel()
        self._digest_at_ms = at_ms
        loop = asyncio.get_running_loop()
        delay_s = (at_ms - now_ms) / 1000
        self._digest_timer = loop.call_later(delay_s, self._digest_timer_fired)

    def _digest_timer_fired(self) -> None:
        self._digest_timer = None
        self._digest_is_due = True
        self._wake()

    async def _tell_digest(self) -> None:
        self._digest_is_due = False
        if self.is_holder or not self.seen.has_news:
            return
        digest = self.seen.digest(self._now())
        self._has_told = True
        try:
            await self._leases.tell(self._group_id, digest)
        except BaseException:
            self.seen.not_told(digest)
            self._digest_is_due = True
            raise
        if self.seen.has_news:
            self._plan_digest(0)

    # Failures

    def _pause(self) -> None:
        if self._paused is None:
            loop = asyncio.get_running_loop()
            self._paused = loop.call_later(RETRY_MS / 1000, self._unpause)

    def _unpause(self) -> None:
        self._paused = None
        self._wake()

    def _now(self) -> int:
        return self._clock.monotonic_ms()
