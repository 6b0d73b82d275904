"""Who collects: one broker per job, as long as it lives and succeeds.

The lease saves work and nothing else: every collector is correct when several run at once.
"""

from __future__ import annotations

from towpath.metadata.keys import ROOT
from towpath.metadata.store import (
    ABSENT,
    MetadataError,
    MetadataStore,
    Session,
    SessionExpired,
    VersionConflict,
)
from towpath.runtime import Runtime

LEASES_PREFIX = f"{ROOT}/gc/lease/"
SESSION_TTL_MS = 30_000


class Leases:
    """This broker's leases, in one session of its own."""

    def __init__(self, store: MetadataStore, runtime: Runtime) -> None:
        self._store = store
        self._token = str(runtime.uuid4()).encode()
        self._session: Session | None = None

    async def hold(self, job: str) -> bool:
        """Take the job's lease, or keep it; False if another broker has it."""
        found = await self._store.get(_key(job))
        if found is not None:
            return found.value == self._token
        session = await self._live_session()
        try:
            await self._store.put(_key(job), self._token, expect=ABSENT, session=session)
        except (SessionExpired, VersionConflict):
            return False
        return True

    async def release(self, job: str) -> None:
        """Let another broker try; nothing happens if the lease is not ours."""
        found = await self._store.get(_key(job))
        if found is not None and found.value == self._token:
            try:
                await self._store.delete(_key(job), expect=found.version)
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
            self._session = await self._store.open_session(SESSION_TTL_MS)
        return self._session


def _key(job: str) -> str:
    return f"{LEASES_PREFIX}{job}"
