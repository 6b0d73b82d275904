"""What a group is subscribed to, as far as it exists, and when that has changed."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from towpath.groups.consumer.regex import check_regex, resolve

if TYPE_CHECKING:
    from towpath.groups.consumer.member import Member
    from towpath.groups.consumer.state import ConsumerGroup
    from towpath.topics.interface import Topics

HASH_BYTES = 7
"""Short enough that every reader of JSON keeps the number as it is."""


def resolved(group: ConsumerGroup, topics: Topics) -> ConsumerGroup:
    """The group whose regular expressions stand for the topics as they are now, with a higher epoch
    if that makes a difference.

    As in Kafka, an expression is not looked up by the heartbeat that tells it but by the next one,
    whoever sends it: a member answers its first, empty assignment at once.
    """
    if group.has_seen(topics) and not group.unresolved:
        return group
    known = group.regexes if group.has_seen(topics) else {}
    regexes = resolve(group.subscribed_regexes, known, topics)
    if not regexes:
        return group
    old = group.regexes
    differ = any(names != old.get(regex, frozenset()) for regex, names in regexes.items())
    group = group if regexes == old else group.changed(regexes=regexes)
    return _refreshed(group, topics, bump=differ)


def resubscribed(group: ConsumerGroup, old: Member, new: Member, topics: Topics) -> ConsumerGroup:
    """The group, of which `new` is a member already, after that member was `old`: its epoch is
    higher if the member's subscription has changed, or the topics have. Another assignor alone
    changes nothing before the next assignment, as in Kafka."""
    is_known = not new.topic_regex or new.topic_regex in group.regexes
    bump = group.epoch == 0 or new.topic_names != old.topic_names
    if new.topic_regex != old.topic_regex:
        bump = bump or is_known
        if not is_known:
            check_regex(new.topic_regex)
        group = without_unused(group)
    if not bump and group.has_seen(topics):
        return group
    return _refreshed(group, topics, bump=bump)


def without_unused(group: ConsumerGroup) -> ConsumerGroup:
    """The group that has forgotten the regular expressions of no member."""
    unused = group.regexes.keys() - group.subscribed_regexes
    if not unused:
        return group
    kept = {regex: names for regex, names in group.regexes.items() if regex not in unused}
    return group.changed(regexes=kept)


def _refreshed(group: ConsumerGroup, topics: Topics, *, bump: bool) -> ConsumerGroup:
    digest = metadata_hash(group.subscribed_names, topics)
    if bump or digest != group.metadata_hash:
        group = group.changed(epoch=group.epoch + 1, metadata_hash=digest)
    group.saw(topics)
    return group


def metadata_hash(names: Collection[str], topics: Topics) -> int:
    """A number for the existing topics of these names, with their ids and partitions; 0 if there
    are none. Racks are not part of it: partitions have none here."""
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    found = False
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            found = True
            digest.update(f"{name}\n{topic.topic_id.hex}\n{topic.partitions}\n".encode())
    return int.from_bytes(digest.digest(), "big") if found else 0


def is_homogeneous(group: ConsumerGroup) -> bool:
    """Whether all members are subscribed to the same topics by the same means."""
    members = group.members.values()
    if not group.subscribed_regexes:
        return len({member.topic_names for member in members}) <= 1
    # Names beside a regular expression, and topics of two of them, count as different.
    return len({member.topic_regex for member in members}) == 1 and not any(
        member.topic_names for member in members
    )


class TopicIds:
    """Looks up the topic ids of members; equal subscriptions are looked up once."""

    def __init__(self, group: ConsumerGroup, topics: Topics) -> None:
        self._group = group
        self._topics = topics
        self._known: dict[tuple[frozenset[str], str], frozenset[uuid.UUID]] = {}

    def of(self, member: Member) -> frozenset[uuid.UUID]:
        """The ids of the existing topics that the member is subscribed to."""
        key = (member.topic_names, member.topic_regex)
        found = self._known.get(key)
        if found is None:
            matched = self._group.regexes.get(member.topic_regex, frozenset())
            found = self._known[key] = self._existing(member.topic_names | matched)
        return found

    def seen(self) -> frozenset[uuid.UUID]:
        """Every id that was given out."""
        return frozenset().union(*self._known.values())

    def _existing(self, names: Iterable[str]) -> frozenset[uuid.UUID]:
        found = map(self._topics.get, names)
        return frozenset(topic.topic_id for topic in found if topic is not None)
