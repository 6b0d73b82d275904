"""Who was seen when, and which timers are due."""

from __future__ import annotations

from typing import cast

from towpath.groups.seen import Seen
from towpath.groups.step import Step, Timer
from towpath.groups.timers import Timers
from towpath.metadata.keys.groups import SeenDigest

STEP = cast("Step[None]", None)


def timer(name: str, after_ms: int, member_id: str | None = None) -> Timer:
    return Timer(name, after_ms, STEP, member_id)


def names(timers: list[Timer]) -> list[str]:
    return [found.name for found in timers]


# Seen


def test_a_member_is_as_young_as_anybody_has_seen_it() -> None:
    seen = Seen()
    assert seen.last_ms("m", 100) is None
    seen.learn(SeenDigest({"m": 30}), 100)
    assert seen.last_ms("m", 200) == 70
    seen.note("m", 60)
    assert seen.last_ms("m", 200) == 70
    seen.note("m", 90)
    assert seen.last_ms("m", 200) == 90
    seen.learn(SeenDigest({"m": 100}), 110)
    assert seen.last_ms("m", 200) == 90


def test_a_member_that_waits_is_seen_now() -> None:
    seen = Seen()
    seen.begin_wait("m")
    seen.begin_wait("m")
    assert seen.last_ms("m", 500) == 500
    seen.end_wait("m", 600)
    assert seen.last_ms("m", 700) == 700
    seen.end_wait("m", 800)
    assert seen.last_ms("m", 900) == 800


def test_a_digest_tells_of_everybody_because_it_replaces_the_one_before() -> None:
    seen = Seen()
    seen.note("b", 10)
    seen.note("a", 40)
    seen.begin_wait("c")
    digest = seen.digest(50)
    assert list(digest.ages_ms.items()) == [("a", 10), ("b", 40), ("c", 0)]
    seen.end_wait("c", 60)
    assert seen.has_news
    assert seen.digest(60).ages_ms == {"a": 20, "b": 50, "c": 0}
    assert not seen.has_news


def test_a_digest_that_was_not_written_is_told_again() -> None:
    seen = Seen()
    seen.note("a", 10)
    digest = seen.digest(20)
    seen.not_told(digest)
    assert seen.digest(30).ages_ms == {"a": 20}


def test_who_is_no_member_is_forgotten() -> None:
    seen = Seen()
    for member_id in ("a", "b"):
        seen.note(member_id, 10)
    seen.learn(SeenDigest({"a": 0, "b": 0}), 10)
    seen.keep_only({"b"})
    assert seen.last_ms("a", 20) is None
    assert seen.last_ms("b", 20) == 10
    assert seen.digest(20).ages_ms == {"b": 10}


# Timers


def test_a_timer_runs_from_when_it_was_first_seen() -> None:
    timers = Timers(Seen())
    timers.update([timer("x", 100)], 0)
    timers.update([timer("x", 100), timer("y", 100)], 60)
    assert timers.next_ms(60) == 100
    assert names(timers.due(99)) == []
    assert names(timers.due(100)) == ["x"]
    assert names(timers.due(160)) == ["x", "y"]


def test_a_timer_that_was_away_starts_again() -> None:
    timers = Timers(Seen())
    timers.update([timer("x", 100)], 0)
    timers.update([], 50)
    assert timers.next_ms(50) is None
    assert not timers.any
    timers.update([timer("x", 100)], 60)
    assert timers.next_ms(60) == 160


def test_a_timer_that_ran_in_vain_starts_again() -> None:
    timers = Timers(Seen())
    timers.update([timer("x", 100)], 0)
    timers.ran(timers.due(100), 100)
    assert timers.next_ms(100) == 200


def test_a_new_holder_starts_all_timers_again() -> None:
    timers = Timers(Seen())
    timers.update([timer("x", 100), timer("m", 50, "m")], 0)
    timers.restart(1_000)
    assert timers.next_ms(1_000) == 1_050


def test_a_member_s_timer_starts_again_when_it_is_seen() -> None:
    seen = Seen()
    timers = Timers(seen)
    timers.update([timer("m", 50, "m")], 0)
    seen.note("m", 40)
    assert timers.next_ms(50) == 90
    seen.begin_wait("m")
    assert names(timers.due(500)) == []
    assert timers.next_ms(500) == 550
    seen.end_wait("m", 600)
    assert names(timers.due(650)) == ["m"]


def test_the_sleep_of_a_broker_is_not_its_members_silence() -> None:
    seen = Seen()
    timers = Timers(seen)
    timers.update([timer("m", 50, "m"), timer("x", 100)], 0)
    seen.note("m", 10)
    # Due at 60, but the broker woke up at 1060.
    timers.forgive(1_000, 1_060)
    assert names(timers.due(1_060)) == ["m"]
    seen.note("m", 1_061)
    assert names(timers.due(1_061)) == []
    assert names(timers.due(1_100)) == ["x"]
