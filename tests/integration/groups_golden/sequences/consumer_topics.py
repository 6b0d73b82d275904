"""ConsumerGroupHeartbeat: topics come, grow and go while members subscribe to them."""

from __future__ import annotations

from typing import Any

from tests.integration.groups_golden.consumer import Consumer
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene
from tests.integration.groups_golden.topics import add_partitions, create_topic, delete_topic
from tests.integration.harness.waiting import wait_until


def join_known(member: Consumer, topic: str) -> None:
    """Join once the coordinator knows a topic that was made just now: a member that came before it
    would start at an earlier epoch."""
    scout = Consumer(member.peer.scene, "scout", group="scouting")
    request = scout.join_request([topic])

    def knows() -> bool:
        answer: Any = scout.peer.send(request).read()
        return bool(answer.assignment and answer.assignment.topic_partitions)

    wait_until(knows, f"{topic} known to the coordinator")
    scout.peer.send(scout.request(epoch=-1)).read()
    member.join([topic])


@sequence()
def topic_created_while_subscribed(s: Scene) -> None:
    """A subscribed topic comes into being."""
    a = Consumer(s, "a")
    a.join([s.group])
    create_topic(s, s.group, 2)
    a.until_assigned()
    a.acknowledge()


@sequence()
def topic_grows_while_subscribed(s: Scene) -> None:
    """Partitions are added; both members get some."""
    create_topic(s, s.group, 2)
    a, b = Consumer(s, "a"), Consumer(s, "b")
    join_known(a, s.group)
    a.acknowledge()
    add_partitions(s, s.group, 4)
    a.until_assigned()
    a.acknowledge()
    b.join([s.group])
    a.until_assigned()
    a.acknowledge()
    b.until_assigned()
    b.acknowledge()


@sequence()
def topic_deleted_while_subscribed(s: Scene) -> None:
    """One of two topics is deleted; its partitions are taken away."""
    create_topic(s, s.group, 2)
    a = Consumer(s, "a")
    join_known(a, s.group)
    a.acknowledge()
    a.heartbeat(topics=["alpha", s.group])
    a.acknowledge()
    delete_topic(s, s.group)
    a.until_assigned()
    a.acknowledge()
    a.heartbeat()


@sequence()
def topic_made_again_while_subscribed(s: Scene) -> None:
    """A topic is deleted and made again: a new topic id."""
    create_topic(s, s.group, 2)
    a = Consumer(s, "a")
    join_known(a, s.group)
    a.acknowledge()
    delete_topic(s, s.group)
    a.until_assigned()
    a.acknowledge()
    create_topic(s, s.group, 1)
    a.until_assigned()
    a.acknowledge()
