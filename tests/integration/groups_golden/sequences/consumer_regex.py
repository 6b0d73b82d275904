"""ConsumerGroupHeartbeat: regular expressions (v1)."""

from __future__ import annotations

from tests.integration.groups_golden.consumer import Consumer, describe_consumers
from tests.integration.groups_golden.registry import sequence
from tests.integration.groups_golden.scene import Scene
from tests.integration.groups_golden.topics import create_topic


@sequence()
def regex_join(s: Scene) -> None:
    """A member with a regular expression has its topics when the broker has resolved it; to say
    the same again changes nothing."""
    looker = s.peer("looker")
    a = Consumer(s, "a")
    a.join_resolved(regex="alph.*")
    a.acknowledge()
    describe_consumers(looker, s.group)
    a.heartbeat(regex="alph.*")


@sequence()
def regex_invalid(s: Scene) -> None:
    """Expressions that RE2 does not read."""
    a = Consumer(s, "a")
    for number, regex in enumerate(("(", "*", "a(?=b)", "(a)\\1", "[z-a]")):
        a.group = f"{s.group}-{number}"
        a.join(regex=regex)
        describe_consumers(a.peer, a.group)


@sequence()
def regex_must_match_whole_names(s: Scene) -> None:
    """Part of a name is no match."""
    a = Consumer(s, "a")
    a.join_resolved(regex="alph|lpha|beta")
    a.acknowledge()


@sequence()
def regex_and_names(s: Scene) -> None:
    """Both at once add up."""
    a = Consumer(s, "a")
    a.join_resolved(["beta"], regex="alpha|gamma")
    a.acknowledge()


@sequence()
def regex_changes(s: Scene) -> None:
    """Another expression, then names instead: an empty one ends it."""
    a = Consumer(s, "a")
    a.join_resolved(regex="alpha")
    a.acknowledge()
    a.change_resolved(regex="gamma")
    a.acknowledge()
    a.acknowledge()
    a.heartbeat(topics=["beta"], regex="")
    a.acknowledge()
    a.heartbeat()


@sequence()
def regex_of_two_members(s: Scene) -> None:
    """The second member of a known expression needs no new resolution."""
    a, b = Consumer(s, "a"), Consumer(s, "b")
    a.join_resolved(regex="gam.a")
    a.acknowledge()
    b.join(regex="gam.a")
    a.heartbeat()
    a.acknowledge()
    b.heartbeat()


@sequence()
def regex_of_topics_to_come(s: Scene) -> None:
    """A topic that is made later and matches is assigned, after a while."""
    a = Consumer(s, "a")
    a.join_resolved(regex="beta|regex_of_topics_to_come_.*")
    a.acknowledge()
    create_topic(s, "regex_of_topics_to_come_1", 2)
    a.until_assigned()
    a.acknowledge()
