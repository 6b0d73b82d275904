"""What must hold of every state that a group comes into, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.faults.simulation.group_lives import Lives
from tests.faults.simulation.group_observer import GroupObserver
from tests.faults.simulation.group_truth import (
    GroupTruth,
    Leaving,
    Place,
    Then,
    TrueGroup,
    decode_places,
)

from towpath.groups.classic.state import ClassicGroup, Phase
from towpath.groups.consumer.partitions import each
from towpath.groups.consumer.state import ConsumerGroup


class GroupInvariants:
    """Judges each change of a group's root."""

    def __init__(self, truth: GroupTruth, lives: Lives, observer: GroupObserver) -> None:
        self._journal = observer.journal
        self._lives = lives
        self._observer = observer
        truth.on_state = self._changes

    def _changes(self, group: TrueGroup, then: Then, leaving: Leaving | None) -> None:
        self._lives.changed(group, then, leaving)
        old, new = group.state, then.state
        if isinstance(new, ClassicGroup):
            if isinstance(old, ClassicGroup):
                self._follows_classic(group.group_id, old, new)
            if new.phase is Phase.STABLE:
                places = {
                    member_id: decode_places(member.assignment)
                    for member_id, member in new.members.items()
                }
                self._shares_nothing(group.group_id, places)
        elif isinstance(new, ConsumerGroup):
            if isinstance(old, ConsumerGroup):
                self._follows_consumer(group.group_id, old, new)
            places = self._places(new)
            self._shares_nothing(group.group_id, places)
            self._takes_nothing(group.group_id, places)

    # What comes after what

    def _follows_classic(self, group_id: str, old: ClassicGroup, new: ClassicGroup) -> None:
        if new.generation < old.generation:
            self._journal.fail(
                f"group {group_id} goes back from generation {old.generation} to {new.generation}"
            )
        ended = old.phase is Phase.PREPARING and new.phase is not Phase.PREPARING
        if ended and new.generation == old.generation:
            self._journal.fail(f"group {group_id} ends a rebalance in generation {new.generation}")
        if new.generation == old.generation and old.phase is new.phase is Phase.STABLE:
            gone = [
                member for member in old.members.values() if member.member_id not in new.members
            ]
            if any(member.instance_id not in new.static_ids for member in gone):
                self._journal.fail(f"group {group_id} lost {gone} without a rebalance")
            for member_id, member in new.members.items():
                before = old.members.get(member_id)
                if before is not None and before.assignment != member.assignment:
                    self._journal.fail(
                        f"{member_id} is assigned twice in generation {new.generation}"
                    )

    def _follows_consumer(self, group_id: str, old: ConsumerGroup, new: ConsumerGroup) -> None:
        before, after = (old.epoch, old.assignment_epoch), (new.epoch, new.assignment_epoch)
        if after[0] < before[0] or after[1] < before[1]:
            self._journal.fail(f"group {group_id} goes back from epochs {before} to {after}")
        both = [member_id for member_id in new.members if member_id in old.members]
        if after[1] == before[1] and any(new.target(m) != old.target(m) for m in both):
            self._journal.fail(f"the target of group {group_id} changes, but not its epoch")
        gone = [member for member_id, member in old.members.items() if member_id not in new.members]
        if after[0] == before[0] and any(member.instance_id is None for member in gone):
            self._journal.fail(f"members of group {group_id} are gone, but its epoch stays")
        for member_id in both:
            was, is_ = old.members[member_id].epoch, new.members[member_id].epoch
            if 0 <= is_ < was:
                self._journal.fail(f"{member_id} goes back from epoch {was} to {is_}")

    # Who has what

    def _places(self, group: ConsumerGroup) -> dict[str, frozenset[Place]]:
        """What each member uses or is yet to give up."""
        names = {
            topic.topic_id: name for name, topic in self._observer.topics.ledger.topics.items()
        }
        return {
            member_id: frozenset(
                (names[topic_id], number)
                for part in (member.assigned, member.revoking)
                for topic_id, number in each(part)
            )
            for member_id, member in group.members.items()
        }

    def _shares_nothing(self, group_id: str, places: Mapping[str, frozenset[Place]]) -> None:
        """No partition is given to two members."""
        owners: dict[Place, str] = {}
        for member_id, own in places.items():
            for place in sorted(own):
                other = owners.setdefault(place, member_id)
                if other != member_id:
                    self._journal.fail(
                        f"{place} of group {group_id} belongs to {other} and {member_id}"
                    )

    def _takes_nothing(self, group_id: str, places: Mapping[str, frozenset[Place]]) -> None:
        """What a member still uses is not taken from it, unless it is removed."""
        for member_id, used in self._observer.owned.get(group_id, {}).items():
            taken = sorted(used - places.get(member_id, used))
            if taken:
                self._journal.fail(f"{taken} are taken from {member_id}, which uses them")
