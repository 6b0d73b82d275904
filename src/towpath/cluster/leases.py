"""Who does a piece of work: one process, as long as it lives and does not give it back.

A lease saves work and nothing else: whatever it guards is correct when several run at once.
"""

from __future__ import annotations

from towpath.metadata.store import (
    ABSENT,
    MetadataError,
    MetadataStore,
    Session,
    SessionExpired,
    VersionConflict,
)
from towpath.runtime import Runtime

SESSION_TTL_MS = 30_000


class Leases:
    """This process's leases on keys, in one session of its own."""

    def __init__(
        self, store: MetadataStore, runtime: Runtime, ttl_ms: int = SESSION_TTL_MS
    ) -> None:
        self._store = store
        self._token = str(runtime.uuid4()).encode()
        self._ttl_ms = ttl_ms
        self._session: Session | None = None

    async def hold(self, key: str) -> bool:
        """Take the lease, or keep it; False if another process has it."""
        found = await self._store.get(key)
        if found is not None:
            return found.value == self._token
        session = await self._live_session()
        try:
            await self._store.put(key, self._token, expect=ABSENT, session=session)
        except (SessionExpired, VersionConflict):
            return False
        return True

    async def release(self, key: str) -> None:
        """Let another process try; nothing happens if the lease is not ours."""
        found = await self._store.get(key)
        if found is not None and found.value == self._token:
            try:
                await self._store.delete(key, expect=found.version)
            except VersionConflict:
                return

    async def close(self) -> None:
        """Give all leases back."""
        session, self._session = self._session, None
        if session is not None:
            try:
                await session.close()
            except MetadataError:
                return  # It ends by itself.

    async def _live_session(self) -> Session:
        if self._session is None or self._session.expired:
            self._session = await self._store.open_session(self._ttl_ms)
        return self._session
