"""Which of the members' protocols a generation uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from towpath.groups.classic.member import Member

_MIN_BUCKETS = 16
_LOAD = 0.75


def candidates(members: Collection[Member]) -> list[str]:
    """The protocols that every member offers, in the order of the first one's preference."""
    first = next(iter(members), None)
    if first is None:
        return []
    names = dict.fromkeys(protocol.name for protocol in first.protocols)
    return [name for name in names if all(member.supports(name) for member in members)]


def elect(members: Collection[Member]) -> str:
    """The candidate that most members prefer. There is one at least: nobody is let in without.

    Among equals Kafka takes the one that its hash map lists first; so does this.
    """
    offered = frozenset(candidates(members))
    votes: dict[str, int] = {}
    for member in members:
        choice = member.vote(offered)
        votes[choice] = votes.get(choice, 0) + 1
    return max(java_order(votes), key=lambda name: votes[name])


def java_order(names: Iterable[str]) -> list[str]:
    """The names in the order in which a `java.util.HashMap` lists them."""
    unique = list(dict.fromkeys(names))
    buckets = _MIN_BUCKETS
    while len(unique) > buckets * _LOAD:
        buckets *= 2
    return sorted(unique, key=lambda name: _spread(name) & (buckets - 1))


def _spread(name: str) -> int:
    """Java's hash of a string, as its hash map mixes it."""
    code = 0
    utf16 = name.encode("utf-16-be")
    for at in range(0, len(utf16), 2):
        code = (31 * code + int.from_bytes(utf16[at : at + 2], "big")) & 0xFFFFFFFF
    return code ^ (code >> 16)
