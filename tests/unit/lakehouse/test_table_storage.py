"""How tables reach files on a service, by the object store's settings."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from towpath.compactor import pipeline_settings_of
from towpath.config import Settings
from towpath.lakehouse.iceberg.file_io import SyncedFileIO
from towpath.lakehouse.iceberg.locations import root_uri
from towpath.lakehouse.iceberg.open import catalog_settings, iceberg_settings
from towpath.lakehouse.iceberg.storage import storage_properties, with_storage
from towpath.lakehouse.plan import Job, JobKind
from towpath.lakehouse.runners import execute
from towpath.lakehouse.runners.travel import pack, unpack
from towpath.objects.worker_opendal import OpendalObjects

SECRET = "geheim"
S3_OPTIONS = {
    "endpoint": "http://127.0.0.1:8333",
    "region": "eu-west-1",
    "access-key-id": "me",
    "secret_access_key": SECRET,
}
S3_PROPERTIES = {
    "s3.endpoint": "http://127.0.0.1:8333",
    "s3.region": "eu-west-1",
    "s3.access-key-id": "me",
    "s3.secret-access-key": SECRET,
    "s3.path-style-access": "true",
}


def test_the_default_catalog_reaches_the_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    settings = Settings(data_dir=tmp_path, objects_url="s3://b/p", objects_options=S3_OPTIONS)
    catalog = catalog_settings(settings)
    uri = f"sqlite:///{tmp_path}/catalog.sqlite"
    assert (catalog.type, catalog.properties) == ("sql", {"uri": uri, **S3_PROPERTIES})
    assert iceberg_settings(settings, "c").objects_root_uri == "s3://b/p"
    assert SECRET not in repr(catalog) + repr(iceberg_settings(settings, "c"))


def test_what_is_given_for_the_catalog_wins(tmp_path: Path) -> None:
    given = {"uri": "http://c", "s3.region": "other", "client.access-key-id": "you"}
    settings = Settings(
        data_dir=tmp_path,
        objects_url="s3://b/p",
        objects_options=S3_OPTIONS,
        iceberg_catalog=given,
    )
    properties = catalog_settings(settings).properties
    assert properties["s3.region"] == "other"
    assert properties["s3.secret-access-key"] == SECRET
    assert "s3.access-key-id" not in properties  # It would hide the one that was given.
    assert properties["client.access-key-id"] == "you"


def test_files_need_nothing() -> None:
    assert storage_properties("file:///data", {}, {"AWS_REGION": "x"}) == {}
    assert with_storage({}, {"uri": "x"}) == {"uri": "x"}


@pytest.mark.parametrize(
    ("options", "environ", "properties"),
    [
        ({}, {}, {}),
        ({}, {"AWS_DEFAULT_REGION": "here"}, {"s3.region": "here"}),
        ({"region": "there"}, {"AWS_REGION": "here"}, {"s3.region": "there"}),
        (
            {"endpoint": "http://x", "enable_virtual_host_style": "true"},
            {},
            {"s3.endpoint": "http://x", "s3.force-virtual-addressing": "true"},
        ),
    ],
)
def test_s3(options: dict[str, str], environ: dict[str, str], properties: dict[str, str]) -> None:
    assert storage_properties("s3://b", options, environ) == properties


def test_gcs() -> None:
    assert root_uri("gcs://bucket/prefix/") == "gs://bucket/prefix"
    options = {"endpoint": "http://127.0.0.1:4443", "token": "t", "credential_path": "/x"}
    assert storage_properties("gcs://bucket", options, {}) == {
        "gcs.service.host": "http://127.0.0.1:4443",
        "gcs.oauth2.token": "t",
    }


@pytest.mark.parametrize(
    "options",
    [
        {"account-name": "acc"},
        {"endpoint": "https://acc.blob.core.windows.net"},
        {"endpoint": "http://127.0.0.1:10000/acc"},
    ],
)
def test_azure(options: dict[str, str]) -> None:
    uri = "abfss://container@acc.dfs.core.windows.net/prefix"
    assert root_uri("azblob://container/prefix", options) == uri
    properties = storage_properties("azblob://container", options, {})
    assert properties["adls.account-name"] == "acc"
    is_emulator = "127.0.0.1" in options.get("endpoint", "")
    assert ("adls.blob-storage-authority" in properties) is is_emulator
    assert SyncedFileIO.parse_location(f"{uri}/a") == (
        "abfss",
        "container@acc.dfs.core.windows.net",
        "container/prefix/a",
    )


def test_an_azure_account_must_be_known() -> None:
    with pytest.raises(ValueError, match="account_name"):
        root_uri("azblob://container/prefix", {})


def job(settings: Settings) -> Job:
    pipeline = pipeline_settings_of(settings)
    return Job(
        "task",
        JobKind.COMPACT,
        "topic",
        0,
        0,
        1,
        "out/",
        pipeline.objects_url,
        {},
        objects_options=pipeline.objects_options,
    )


def test_workers_get_the_options_and_nobody_sees_them(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, objects_url="s3://b/p", objects_options=S3_OPTIONS)
    made = job(settings)
    assert SECRET not in f"{made!r} {made} {made.title} {pipeline_settings_of(settings)!r}"
    arrived = unpack(pack(made))
    assert arrived == made == pickle.loads(pickle.dumps(made))
    assert arrived.objects_options == S3_OPTIONS
    opened = execute.objects_of(arrived)
    assert isinstance(opened, OpendalObjects)
    assert execute.objects_of(made) is opened
    assert SECRET not in repr(opened)


def test_a_job_with_wrong_options_fails_by_itself(tmp_path: Path) -> None:
    options = {**S3_OPTIONS, "secret_acess_key": SECRET}
    settings = Settings(data_dir=tmp_path, objects_url="s3://b/p", objects_options=options)
    error = execute.execute(job(settings), "a").error
    assert error is not None
    assert "did you mean 'secret_access_key'?" in error
    assert SECRET not in error
