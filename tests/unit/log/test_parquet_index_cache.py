"""The cache of index entries, whose ranges grow by compaction, against a model of the store.

Notifications come late but in order; pages of entries are read at one time and added at another.
Whatever the interleaving: what is found contains the offset and was once in the store, ranges are
never nested (so one look is enough), and what was just read from the store is found.
"""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from towpath.log.object.entries import Entry, decode_at
from towpath.log.object.index_cache import IndexCache
from towpath.metadata.keys import streams
from towpath.metadata.proto import index_pb2
from towpath.observe.metrics import Metrics

STREAM = 5
PAGE = 4
ROOM = 1 << 20


def entry(start: int, end: int, version: int, file_type: index_pb2.FileType) -> Entry:
    message = index_pb2.IndexEntry(version=1, file_type=file_type, record_count=end - start)
    return decode_at(streams.index_entry(STREAM, end, end), version, message)


class CacheMachine(RuleBasedStateMachine):
    """A store, its notifications, pages under way, and the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = IndexCache(ROOM, Metrics())
        self.store: dict[int, Entry] = {}
        self.version = 0
        self.ever: set[tuple[int, int, int]] = set()
        self.doomed: list[int] = []
        """Ends of replaced entries that the swap has not deleted yet."""
        self.news: deque[tuple[str, int | None]] = deque()
        self.pages: list[list[Entry]] = []

    @property
    def log_end(self) -> int:
        return max(self.store, default=0)

    def put(self, start: int, end: int, file_type: index_pb2.FileType) -> Entry:
        self.version += 1
        new = entry(start, end, self.version, file_type)
        self.store[end] = new
        self.ever.add((start, end, self.version))
        self.news.append((new.key, self.version))
        return new

    def delete(self, end: int) -> None:
        self.news.append((self.store.pop(end).key, None))

    def page(self, offset: int) -> list[Entry]:
        """As `Index.find_in_store` reads it."""
        return [self.store[end] for end in sorted(self.store) if end > offset][:PAGE]

    # What happens in the store

    @rule(count=st.integers(1, 5), own=st.booleans())
    def append(self, count: int, own: bool) -> None:
        new = self.put(self.log_end, self.log_end + count, index_pb2.WAL)
        if own:
            self.cache.add(new)

    @precondition(lambda self: self.store and not self.doomed)
    @rule(data=st.data())
    def swap(self, data: st.DataObject) -> None:
        """Compaction, of WAL or Parquet entries: the last key is overwritten."""
        ends = sorted(self.store)
        first = data.draw(st.integers(0, len(ends) - 1))
        last = data.draw(st.integers(first, min(first + 4, len(ends) - 1)))
        self.put(self.store[ends[first]].start, ends[last], index_pb2.PARQUET)
        self.doomed = ends[first:last]

    @precondition(lambda self: self.doomed)
    @rule(data=st.data())
    def clear_one(self, data: st.DataObject) -> None:
        end = data.draw(st.sampled_from(self.doomed))
        self.doomed.remove(end)
        self.delete(end)

    @precondition(lambda self: len(self.store) > 1 and not self.doomed)
    @rule()
    def release_first(self) -> None:
        """Retention."""
        self.delete(min(self.store))

    # What the broker does

    @precondition(lambda self: self.news)
    @rule(count=st.integers(1, 6))
    def hear(self, count: int) -> None:
        for _ in range(min(count, len(self.news))):
            self.cache.changed(*self.news.popleft())

    @rule(data=st.data())
    def begin_read(self, data: st.DataObject) -> None:
        self.pages.append(self.page(data.draw(st.integers(0, self.log_end))))

    @precondition(lambda self: self.pages)
    @rule(data=st.data())
    def end_read(self, data: st.DataObject) -> None:
        for found in self.pages.pop(data.draw(st.integers(0, len(self.pages) - 1))):
            self.cache.add(found)

    @rule()
    def forget(self) -> None:
        self.cache.forget(STREAM)

    @precondition(lambda self: self.store)
    @rule(data=st.data())
    def read_now(self, data: st.DataObject) -> None:
        """What the store has just told is found, or something that contains it."""
        offset = data.draw(st.integers(0, self.log_end - 1))
        page = self.page(offset)
        for found in page:
            self.cache.add(found)
        if page[0].start <= offset:
            assert self.cache.find(STREAM, offset) is not None

    @precondition(lambda self: self.store and not self.doomed)
    @rule()
    def catch_up(self) -> None:
        """After all notifications and pages under way, a read of the whole index leaves no hole."""
        self.pages.clear()
        while self.news:
            self.hear(1)
        for end in sorted(self.store):
            self.cache.add(self.store[end])
        first = min(found.start for found in self.store.values())
        for offset in range(first, self.log_end):
            found = self.cache.find(STREAM, offset)
            assert found is not None
            assert found.start <= offset < found.end

    # What always holds

    @invariant()
    def finds_only_what_was_in_the_store(self) -> None:
        for offset in range(self.log_end + 1):
            found = self.cache.find(STREAM, offset)
            if found is not None:
                assert found.start <= offset < found.end
                assert (found.start, found.end, found.version) in self.ever

    @invariant()
    def no_range_lies_inside_another(self) -> None:
        kept = [self.cache._entries[STREAM, end] for end in self.cache._ends.get(STREAM, [])]
        starts = [found.start for found in kept]
        ends = [found.end for found in kept]
        assert ends == sorted(set(ends))
        assert starts == sorted(set(starts))

    @invariant()
    def counts_its_bytes(self) -> None:
        kept = self.cache._entries.values()
        assert self.cache._size_bytes == sum(found.size_bytes for found in kept)
        assert sum(map(len, self.cache._ends.values())) == len(kept)


TestIndexCache = CacheMachine.TestCase
TestIndexCache.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), max_size=40))
def test_any_ranges_at_all_are_found_rightly(ranges: list[tuple[int, int]]) -> None:
    """Also ranges that no compaction makes: what is found contains the offset."""
    cache = IndexCache(ROOM, Metrics())
    for version, (start, length) in enumerate(ranges):
        cache.add(entry(start, start + length, version + 1, index_pb2.PARQUET))
        for offset in range(60):
            found = cache.find(STREAM, offset)
            assert found is None or found.start <= offset < found.end
        assert cache.find(STREAM, start) is not None


def test_the_oldest_entry_goes_first_and_removed_ones_leave_nothing_behind() -> None:
    one = entry(0, 1, 1, index_pb2.WAL).size_bytes
    cache = IndexCache(3 * one, Metrics())
    for at in range(1_000):
        cache.add(entry(at, at + 1, 1, index_pb2.WAL))
        cache.changed(streams.index_entry(STREAM, at + 1, at + 1), None)
    assert not cache._entries
    assert not cache._ends
    for at in range(10):
        cache.add(entry(at, at + 1, 1, index_pb2.WAL))
    assert [at for at in range(10) if cache.find(STREAM, at)] == [7, 8, 9]
