"""A broker tries a service before it serves, and says what is wrong with it."""

from __future__ import annotations

import asyncio

import pytest

from towpath import broker
from towpath.broker import Broker, try_store
from towpath.config import Settings
from towpath.objects.memory import MemoryObjectStore
from towpath.objects.store import ObjectStoreError
from towpath.runtime import inline_runtime


class Failing(MemoryObjectStore):
    async def probe(self) -> None:
        raise ObjectStoreError("cannot write probe/x: PermissionDenied: AccessDenied: no")


class Silent(MemoryObjectStore):
    async def probe(self) -> None:
        await asyncio.Event().wait()


async def test_a_store_that_works() -> None:
    await try_store(MemoryObjectStore(inline_runtime(1)), "s3://bucket")


async def test_a_store_that_fails() -> None:
    message = "the object store s3://bucket cannot be used: cannot write .* AccessDenied: no"
    with pytest.raises(ObjectStoreError, match=message):
        await try_store(Failing(inline_runtime(1)), "s3://bucket")


async def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "PROBE_TIMEOUT_S", 0.01)
    with pytest.raises(ObjectStoreError, match=r"cannot be used: no answer within 0\.01 s"):
        await try_store(Silent(inline_runtime(1)), "s3://bucket")


async def test_a_broker_does_not_start_without_its_store() -> None:
    settings = Settings(
        metadata_url="memory://",
        objects_url="s3://bucket/prefix",
        objects_options={
            "endpoint": "http://127.0.0.1:1",
            "region": "nowhere",
            "access_key_id": "a",
            "secret_access_key": "geheim",
        },
        kafka_port=0,
        http_port=0,
    )
    with pytest.raises(ObjectStoreError, match="s3://bucket/prefix cannot be used: ") as failure:
        await Broker(settings).start()
    assert "Connection refused" in str(failure.value)
    assert "geheim" not in str(failure.value)
