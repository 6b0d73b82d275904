"""The contract of object stores, for those that need no server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import opendal
import pytest

pytest.register_assert_rewrite("tests.contract.object_store_contract")

from tests.contract.object_store_contract import ObjectStoreContract  # noqa: E402

from towpath.objects import opendal_store  # noqa: E402
from towpath.objects.fs import FsObjectStore  # noqa: E402
from towpath.objects.measured import MeasuredObjectStore  # noqa: E402
from towpath.objects.memory import MemoryObjectStore  # noqa: E402
from towpath.objects.opendal_store import OpendalStore  # noqa: E402
from towpath.objects.store import ObjectStore  # noqa: E402
from towpath.observe.metrics import Metrics  # noqa: E402
from towpath.runtime import inline_runtime  # noqa: E402


class TestFs(ObjectStoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        store = FsObjectStore(tmp_path / "objects", inline_runtime(1))
        assert store._writer.unnamed_files, "this file system has no O_TMPFILE: test on another"
        yield store
        await store.close()


class TestFsWithoutUnnamedFiles(ObjectStoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        store = FsObjectStore(tmp_path / "objects", inline_runtime(1))
        store._writer.unnamed_files = False
        yield store
        assert list((tmp_path / "objects/.towpath/tmp").iterdir()) == []
        await store.close()


class TestMemory(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryObjectStore(inline_runtime(1))


class TestOpendalMemory(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return OpendalStore(opendal.AsyncOperator("memory"), inline_runtime(1))


class TestOpendalLevelByLevel(ObjectStoreContract):
    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        monkeypatch.setattr(opendal_store, "TREE_OBJECTS_MAX", 2)
        return OpendalStore(opendal.AsyncOperator("memory"), inline_runtime(1))


class TestMeasured(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MeasuredObjectStore(MemoryObjectStore(inline_runtime(1)), Metrics())
