"""Which members of a group are alive, as far as one broker knows.

A broker notes the members that talk to it. If another broker holds the group's lease, what it has
noted goes into a digest key now and then, while there is news; the holder reads the digests of the
others. So nothing is written per heartbeat, and nobody is expired who talks to another broker. A
member that turns up at a broker after a longer silence is told of at once: the holder may be about
to expire it.
"""

from __future__ import annotations

from collections.abc import Collection

from towpath.metadata.keys.groups import SeenDigest

DIGESTS_PER_SESSION = 3
"""Digests per session time-out of the member with the shortest one."""


class Seen:
    """When each member was last seen, in this broker's monotonic milliseconds."""

    def __init__(self) -> None:
        self._here: dict[str, int] = {}
        self._elsewhere: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        """Requests of a member that wait here for the group."""
        self._told: set[str] = set()
        """Members that were seen since the last digest."""

    def silence_ms(self, member_id: str, now_ms: int) -> int | None:
        """How long this broker has not heard the member; None if it never has."""
        if member_id in self._waiting:
            return 0
        last_ms = self._here.get(member_id)
        return None if last_ms is None else now_ms - last_ms

    def note(self, member_id: str, now_ms: int) -> None:
        """The member talks to this broker."""
        self._here[member_id] = now_ms
        self._told.add(member_id)

    def begin_wait(self, member_id: str) -> None:
        """A request of the member waits; as long as it does, the member is alive."""
        self._waiting[member_id] = self._waiting.get(member_id, 0) + 1

    def end_wait(self, member_id: str, now_ms: int) -> None:
        """The request was answered, or its client is gone."""
        left = self._waiting[member_id] - 1
        if left:
            self._waiting[member_id] = left
        else:
            del self._waiting[member_id]
        self.note(member_id, now_ms)

    def learn(self, digest: SeenDigest, read_ms: int) -> None:
        """Another broker has told which members it has seen. Its ages count from when the digest
        was read: late news make members younger, never older."""
        for member_id, age_ms in digest.ages_ms.items():
            at_ms = read_ms - age_ms
            if at_ms > self._elsewhere.get(member_id, at_ms - 1):
                self._elsewhere[member_id] = at_ms

    def last_ms(self, member_id: str, now_ms: int) -> int | None:
        """When the member was last seen by anybody; None if never."""
        if member_id in self._waiting:
            return now_ms
        here, elsewhere = self._here.get(member_id), self._elsewhere.get(member_id)
        if here is None or elsewhere is None:
            return elsewhere if here is None else here
        return max(here, elsewhere)

    def keep_only(self, member_ids: Collection[str]) -> None:
        """Forget members that the group does not have."""
        if len(self._here) > len(member_ids):
            self._here = {m: at for m, at in self._here.items() if m in member_ids}
        if len(self._elsewhere) > len(member_ids):
            self._elsewhere = {m: at for m, at in self._elsewhere.items() if m in member_ids}
        self._told.intersection_update(member_ids)

    def forgive(self, slept_ms: int, now_ms: int) -> None:
        """This broker slept: its members could not be heard for so long."""
        for noted in (self._here, self._elsewhere):
            for member_id in noted:
                noted[member_id] = min(now_ms, noted[member_id] + slept_ms)

    @property
    def has_news(self) -> bool:
        """Whether a digest would tell something."""
        return bool(self._told or self._waiting)

    def digest(self, now_ms: int) -> SeenDigest:
        """When each member was last seen here. It tells all of them, because the holder may never
        read the digests before: one replaces the other, and they vanish with a session."""
        self._told.clear()
        ages_ms = {
            member_id: 0 if member_id in self._waiting else now_ms - self._here[member_id]
            for member_id in sorted(self._here.keys() | self._waiting.keys())
        }
        return SeenDigest(ages_ms)

    def not_told(self, digest: SeenDigest) -> None:
        """The digest could not be written; the next one says it again."""
        self._told.update(member for member in digest.ages_ms if member in self._here)
