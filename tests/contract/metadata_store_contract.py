"""What every metadata store must do, as tests that any store can run.

A test module subclasses `MetadataStoreContract` and gives it a `harness` fixture.
"""

from __future__ import annotations

import pytest
from tests.contract.metadata_commit_contract import CommitContract
from tests.contract.metadata_single_key_contract import SingleKeyContract
from tests.contract.metadata_store_harness import (
    Recorder,
    StoreHarness,
    append,
    everything,
)
from tests.contract.metadata_watch_contract import SessionContract, WatchContract

from towpath.metadata.store import (
    Put,
    StoreUnavailable,
    Tail,
)


class MetadataStoreContract(SingleKeyContract, CommitContract, WatchContract, SessionContract):
    """The whole contract."""

    async def test_probe(self, harness: StoreHarness) -> None:
        store = await harness.open()
        await store.probe()
        assert await everything(store) == {}

    async def test_a_closed_store_refuses(self, harness: StoreHarness) -> None:
        store, other = await harness.open(), await harness.open()
        recorder = Recorder()
        store.watch("/", recorder)
        await store.close()
        await store.close()
        for call in (
            store.get("/k"),
            store.scan("/", "0"),
            store.tails([1]),
            store.put("/k", b""),
            store.commit(0, puts=[Put("/k", b"")]),
            store.barrier(),
            store.probe(),
        ):
            with pytest.raises(StoreUnavailable):
                await call
        await other.put("/k", b"")
        assert recorder.changes == []

    async def test_data_outlives_its_clients(self, harness: StoreHarness) -> None:
        store, keeper = await harness.open(), await harness.open()
        await store.commit(0, appends=[append(1, 3, 30)], puts=[Put("/k", b"kept")])
        await store.close()
        again = await harness.open()
        assert await again.tails([1]) == [Tail(3, 30)]
        found = await again.get("/k")
        assert found is not None
        assert await again.put("/k", b"", expect=found.version) > found.version
        assert await keeper.get("/k") == await again.get("/k")
