"""Topics in memory, found by name, by id and by number, each at the newest version seen."""

from __future__ import annotations

import uuid

from towpath.topics.interface import Topic
from towpath.topics.names import collision_key


class TopicIndex:
    """A plain data structure; it never replaces a topic by an older version of itself."""

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self._by_number: dict[int, Topic] = {}
        self._by_collision_key: dict[str, set[str]] = {}
        self._sorted: tuple[Topic, ...] | None = ()
        self.changes = 0
        """How often something was taken in or forgotten."""

    def get(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def get_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic of this id."""
        return self._by_id.get(topic_id)

    def get_by_number(self, number: int) -> Topic | None:
        """The topic of this number."""
        return self._by_number.get(number)

    def all(self) -> tuple[Topic, ...]:
        """Every topic, by name; the tuple is kept until something changes."""
        if self._sorted is None:
            self._sorted = tuple(self._by_name[name] for name in sorted(self._by_name))
        return self._sorted

    def colliding(self, name: str) -> str | None:
        """Another topic's name that collides with this one, if any."""
        found = self._by_collision_key.get(collision_key(name), set()) - {name}
        return min(found) if found else None

    def put(self, topic: Topic) -> None:
        """Take in a topic, unless a newer version of its name is known already."""
        known = self._by_name.get(topic.name)
        if known is not None:
            if known.version >= topic.version:
                return
            self.drop(topic.name)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_number[topic.number] = topic
        self._by_collision_key.setdefault(collision_key(topic.name), set()).add(topic.name)
        self._sorted = None
        self.changes += 1

    def drop(self, name: str) -> None:
        """Forget a topic that is gone."""
        topic = self._by_name.pop(name, None)
        if topic is None:
            return
        del self._by_id[topic.topic_id]
        del self._by_number[topic.number]
        key = collision_key(name)
        self._by_collision_key[key].discard(name)
        if not self._by_collision_key[key]:
            del self._by_collision_key[key]
        self._sorted = None
        self.changes += 1

    def keep_only(self, names: set[str]) -> None:
        """Forget every topic whose name is not among these."""
        for name in self._by_name.keys() - names:
            self.drop(name)
