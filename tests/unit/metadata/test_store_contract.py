"""The contract of metadata stores, for those that need no server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract.metadata_store_contract import MetadataStoreContract
from tests.unit.metadata.helpers_metadata import MemoryHarness, SqliteHarness


class TestSqlite(MetadataStoreContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[SqliteHarness]:
        harness = SqliteHarness(tmp_path / "metadata.db")
        yield harness
        await harness.close()


class TestMemory(MetadataStoreContract):
    @pytest.fixture
    def harness(self) -> MemoryHarness:
        return MemoryHarness()
