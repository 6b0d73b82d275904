"""The contract of object stores on a real S3 server, for brokers and for workers."""

from __future__ import annotations

import gc
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import opendal
import pytest
from tests.integration.harness.seaweedfs import (
    GUEST_ACCESS_KEY,
    GUEST_SECRET_KEY,
    SeaweedFs,
)

pytest.register_assert_rewrite("tests.contract.object_store_contract")

from tests.contract.object_store_contract import ObjectStoreContract, listed  # noqa: E402

from towpath.objects import opendal_store  # noqa: E402
from towpath.objects.open import open_object_store  # noqa: E402
from towpath.objects.store import (  # noqa: E402
    ObjectExists,
    ObjectNotFound,
    ObjectStore,
    ObjectStoreError,
)
from towpath.objects.worker import open_worker_objects  # noqa: E402
from towpath.objects.worker_opendal import PART_BYTES, OpendalObjects  # noqa: E402
from towpath.observe.metrics import Metrics  # noqa: E402
from towpath.runtime import inline_runtime  # noqa: E402


def new_url() -> str:
    """A prefix that nobody has used."""
    return f"s3://objects/{uuid.uuid4().hex}"


def open_s3(server: SeaweedFs, url: str | None = None, **options: str) -> ObjectStore:
    given = {**server.s3_options(), **options}
    return open_object_store(url or new_url(), inline_runtime(1), Metrics(), given)


class TestS3(ObjectStoreContract):
    @pytest.fixture
    async def store(self, s3_server: SeaweedFs) -> AsyncIterator[ObjectStore]:
        store = open_s3(s3_server)
        yield store
        await store.close()


# Brokers


async def test_a_large_tree_is_listed_level_by_level(
    s3_server: SeaweedFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opendal_store, "TREE_OBJECTS_MAX", 3)
    store = open_s3(s3_server)
    paths = ["a", "a-b", "b/1", "b/2", "b/c/1", "b/c/2", "b/c/d/1", "b/c/d/2", "b-", "b0", "c/1"]
    for path in paths:
        await store.put(path, [path.encode()])
    for prefix in ("", "b", "b/", "b/c", "b/c/", "b/c/d/1", "c"):
        found = [info async for info in store.list(prefix)]
        expected = sorted(path for path in paths if path.startswith(prefix))
        assert [info.path for info in found] == expected
        assert [info.size_bytes for info in found] == [len(path) for path in expected]


async def test_listings_longer_than_a_page(s3_server: SeaweedFs) -> None:
    """The server's pages have 1,000 objects."""
    store = open_s3(s3_server)
    paths = [f"d{number % 3}/{number:04d}" for number in range(1_100)]
    for path in paths:
        await store.put(path, [b"1"])
    assert await listed(store, "") == sorted(paths)


async def test_objects_in_parts(s3_server: SeaweedFs) -> None:
    store = open_s3(s3_server)
    content = os.urandom(1 << 20) * (opendal_store.WHOLE_MAX_BYTES >> 20) + b"end"
    await store.put("large", [content])
    assert (await store.stat("large")).size_bytes == len(content)
    assert bytes(await store.read("large", len(content) - 10, 10)) == content[-10:]
    with pytest.raises(ObjectExists):
        await store.put("large", [content[::-1]])
    assert bytes(await store.read("large", 0, 10)) == content[:10]


async def test_the_listing_tells_when_an_object_was_written(s3_server: SeaweedFs) -> None:
    store = open_s3(s3_server)
    await store.put("a", [b"1"])
    (listed_info,) = [info async for info in store.list("")]
    stated = await store.stat("a")
    assert listed_info == replace(stated, modified_at_ms=listed_info.modified_at_ms)
    assert abs(listed_info.modified_at_ms - stated.modified_at_ms) < 1000  # Whole seconds there.


async def test_credentials_of_the_environment(
    s3_server: SeaweedFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = s3_server.s3_options()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", options.pop("access_key_id"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options.pop("secret_access_key"))
    monkeypatch.setenv("AWS_REGION", options.pop("region"))
    url = new_url()
    store = open_object_store(url, inline_runtime(1), Metrics(), options)
    await store.probe()
    await store.put("a", [b"1"])
    assert bytes(open_worker_objects(url, options).read("a", 0, 1)) == b"1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"access_key_id": "nobody"}, "PermissionDenied: InvalidAccessKeyId: "),
        ({"secret_access_key": "geheim"}, "PermissionDenied: SignatureDoesNotMatch: "),
        ({"endpoint": "http://127.0.0.1:1"}, "Connection refused"),
        ({"endpoint": "http://no-such-host.invalid"}, "dns error"),
        (
            {"access_key_id": GUEST_ACCESS_KEY, "secret_access_key": GUEST_SECRET_KEY},
            "PermissionDenied: AccessDenied: ",
        ),
    ],
)
async def test_what_is_wrong_is_said_in_one_line(
    s3_server: SeaweedFs, options: dict[str, str], message: str
) -> None:
    given = {**s3_server.s3_options(), **options}
    with pytest.raises(ObjectStoreError, match=message) as failure:
        await open_s3(s3_server, **options).probe()
    text = str(failure.value)
    assert "\n" not in text
    assert given["secret_access_key"] not in text
    assert failure.value.__cause__ is None


async def test_a_bucket_that_does_not_exist_is_no_missing_object(s3_server: SeaweedFs) -> None:
    # Administrators of this server make a bucket by writing to it.
    options = {"access_key_id": GUEST_ACCESS_KEY, "secret_access_key": GUEST_SECRET_KEY}
    store = open_s3(s3_server, "s3://nowhere/x", **options)
    with pytest.raises(ObjectStoreError, match=r"AccessDenied|NoSuchBucket") as failure:
        await store.read("a", 0, 1)
    assert not isinstance(failure.value, ObjectNotFound)


# Workers


async def test_brokers_and_workers_share_objects(s3_server: SeaweedFs) -> None:
    url = new_url()
    store = open_s3(s3_server, url)
    objects = open_worker_objects(url, s3_server.s3_options())
    await store.put("wal/a", [b"from the broker"])
    assert bytes(objects.read("wal/a", 9, 6)) == b"broker"
    content = os.urandom(PART_BYTES) + b"second part"
    with objects.create("data/b") as sink:
        sink.write(content)
        sink.flush()
        assert await listed(store, "") == ["wal/a"]
    assert bytes(await store.read("data/b", PART_BYTES, 11)) == b"second part"
    assert await listed(store, "") == ["data/b", "wal/a"]


@pytest.mark.parametrize("size_bytes", [0, 3, 2 * PART_BYTES + 1])
def test_a_failed_upload_leaves_no_object(s3_server: SeaweedFs, size_bytes: int) -> None:
    objects = open_worker_objects(new_url(), s3_server.s3_options())

    def write_half() -> None:
        with objects.create("dir/a") as sink:
            sink.write(bytes(size_bytes))
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    gc.collect()
    with pytest.raises(ObjectNotFound):
        objects.read("dir/a", 0, 1)


@pytest.mark.parametrize("size_bytes", [3, 2 * PART_BYTES + 1])
def test_a_worker_does_not_touch_an_existing_object(s3_server: SeaweedFs, size_bytes: int) -> None:
    objects = open_worker_objects(new_url(), s3_server.s3_options())
    assert isinstance(objects, OpendalObjects)
    for content in (b"1", b"2"):
        try:
            with objects.create("a") as sink:
                sink.write(content * size_bytes)
        except ObjectExists:
            assert content == b"2"
    assert objects.read("a", size_bytes - 1, 1) == b"1"
    with pytest.raises(ObjectStoreError):
        objects.read("a", size_bytes, 1)


def test_nothing_of_the_options_is_shown(s3_server: SeaweedFs) -> None:
    objects = open_worker_objects(new_url(), s3_server.s3_options())
    assert isinstance(objects, OpendalObjects)
    assert isinstance(objects._operator, opendal.Operator)
    shown = f"{objects!r} {objects._operator!r} {objects._operator}"
    assert s3_server.s3_options()["secret_access_key"] not in shown
