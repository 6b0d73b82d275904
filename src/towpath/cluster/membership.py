"""Which brokers are alive: each holds an ephemeral key, and all watch those keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from towpath.cluster.interface import Cluster
from towpath.cluster.view import View
from towpath.cluster.zones import Zones
from towpath.metadata.keys.cluster import BrokerRecord, broker, brokers_prefix
from towpath.metadata.keys.json_value import UnknownValueVersion
from towpath.metadata.store import (
    ABSENT,
    ChangeSet,
    KeyIs,
    KeyValue,
    MetadataError,
    MetadataStore,
    OutcomeUnknown,
    Session,
    SessionExpired,
    VersionConflict,
    Watch,
    prefix_end,
)

SESSION_TTL_MS = 10_000
"""How long a silent broker counts as alive."""

POLL_MS = 250
"""How often a start that waits for an old registration looks again."""

EXPIRY_MARGIN_MS = 2_000
"""How much longer than its time-out an old registration may take to vanish."""

BROKERS_MAX = 1000
"""The most live brokers that are looked at."""

_log = structlog.get_logger(__name__)


class BrokerIdInUse(Exception):
    """Another live broker has the same id."""


class Membership(Cluster):
    """This broker's registration and its view of the others.

    `on_session_lost` is called, on the event loop, each time the registration was lost without
    having been given up: until it is back, others may believe that this broker is dead.
    """

    def __init__(
        self,
        store: MetadataStore,
        cluster_id: str,
        me: BrokerRecord,
        *,
        session_ttl_ms: int = SESSION_TTL_MS,
        on_session_lost: Callable[[], None] | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.broker_id = me.broker_id
        self._store = store
        self._me = me
        self._key = broker(cluster_id, me.broker_id)
        self._session_ttl_ms = session_ttl_ms
        self._on_session_lost = on_session_lost
        self._session: Session | None = None
        self._own_version: int | None = None
        """The version of our key in the store; None while we are not registered."""
        self._loss_told = False
        self._dirty = True
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._watch: Watch | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._show({})

    async def start(self) -> None:
        """Register and load the others. Raises BrokerIdInUse when the id stays taken for longer
        than a dead broker's session can last."""
        self._watch = self._store.watch(brokers_prefix(self.cluster_id), self._on_change)
        try:
            await self._register_patiently()
            await self._settle()
        except BaseException:
            await self.close()
            raise
        self._keeper = asyncio.create_task(self._keep(), name="membership-keeper")

    async def close(self) -> None:
        """Deregister at once and stop watching. Safe to call twice."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        await self._close_session()

    async def refresh(self) -> None:
        await self._store.barrier()
        await self._settle()

    def view(self, zone: str | None) -> View:
        return self._zones.view(zone)

    def registration(self) -> KeyIs | None:
        """What is true in the store as long as the others know this broker to be alive, for the
        conditions of a commit; None while it is not registered."""
        if self._is_lost():
            return None
        return KeyIs(self._key, self._own_version)

    # Registration

    async def _register_patiently(self) -> None:
        """Register, waiting for a killed predecessor's key to expire."""
        await self._open_session()
        try:
            async with asyncio.timeout((self._session_ttl_ms + EXPIRY_MARGIN_MS) / 1000):
                while not await self._register():
                    await self._wait_for_change(POLL_MS)
        except TimeoutError:
            raise BrokerIdInUse(await self._in_use_message()) from None

    async def _register(self) -> bool:
        """Put our key if nobody has it; False if somebody does."""
        assert self._session is not None
        value = self._me.encode()
        # Under the lock, so that a scan from before the put is not taken for a loss of the key.
        async with self._reading:
            try:
                version = await self._store.put(
                    self._key, value, expect=ABSENT, session=self._session
                )
            except (VersionConflict, OutcomeUnknown):
                # The start time makes our value our own; if it is there, a put of ours took
                # effect, be it one whose answer was lost and which came late.
                found = await self._store.get(self._key)
                if found is None or found.value != value:
                    return False
                version = found.version
            self._own_version = version
            self._loss_told = False
            self._dirty = True
            return True

    async def _in_use_message(self) -> str:
        found = await self._store.get(self._key)
        where = "another process"
        if found is not None:
            other = BrokerRecord.decode(found.value)
            where = f"the broker at {other.host}:{other.port}"
        return f"broker id {self.broker_id} is in use by {where}; give this broker another id"

    async def _open_session(self) -> None:
        await self._close_session()
        self._session = await self._store.open_session(self._session_ttl_ms)

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            await session.close()
        except MetadataError as error:
            # The store ends it by itself once its time is over.
            _log.warning("the session could not be closed", error=str(error))

    # Keeping

    async def _keep(self) -> None:
        """Follow the others and register again when our own key is lost."""
        while True:
            await self._wait_for_change(self._session_ttl_ms // 4)
            try:
                await self._settle()
                if self._is_lost():
                    await self._register_again()
            except MetadataError as error:
                _log.warning("the cluster cannot be read; trying again", error=str(error))
                await asyncio.sleep(POLL_MS / 1000)

    def _is_lost(self) -> bool:
        return self._own_version is None or self._session is None or self._session.expired

    async def _register_again(self) -> None:
        if not self._loss_told:
            self._loss_told = True
            _log.warning("this broker's registration was lost; registering again")
            if self._on_session_lost is not None:
                self._on_session_lost()
        if self._session is None or self._session.expired:
            await self._open_session()
        try:
            registered = await self._register()
        except SessionExpired:
            self._session = None
            raise
        if registered:
            await self._settle()
        else:
            _log.error(
                "this broker's id is registered by another session, perhaps an earlier one of its "
                "own that has not ended yet; trying again",
                broker_id=self.broker_id,
            )
            await asyncio.sleep(POLL_MS / 1000)

    async def _wait_for_change(self, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    # The view

    def _on_change(self, changed: ChangeSet) -> None:
        self._dirty = True
        self._changed.set()

    async def _settle(self) -> None:
        if not (self._dirty or self._reading.locked()):
            return
        async with self._reading:
            if not self._dirty:
                return
            self._dirty = False
            try:
                await self._load()
            except BaseException:
                self._dirty = True
                raise

    async def _load(self) -> None:
        prefix = brokers_prefix(self.cluster_id)
        rows = await self._store.scan(prefix, prefix_end(prefix), limit=BROKERS_MAX)
        own = next((row for row in rows if row.key == self._key), None)
        if own is None or own.version != self._own_version:
            self._own_version = None
        records = [record for row in rows if (record := _decoded(row)) is not None]
        self._show({record.broker_id: record for record in records})

    def _show(self, others: dict[int, BrokerRecord]) -> None:
        shown = {**others, self.broker_id: self._me}
        self._zones = Zones(tuple(shown[broker_id] for broker_id in sorted(shown)))


def _decoded(row: KeyValue) -> BrokerRecord | None:
    try:
        return BrokerRecord.decode(row.value)
    except UnknownValueVersion as error:
        _log.error("a broker's registration cannot be read; it is left out", error=str(error))
        return None
