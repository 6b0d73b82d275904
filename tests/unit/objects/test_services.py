"""Services by URL and options, and what is said when they fail."""

from __future__ import annotations

import pytest
from opendal import exceptions

from towpath.objects.open import open_object_store
from towpath.objects.opendal_errors import FAILURES, explain, is_temporary, translate
from towpath.objects.services import checked_options, service_of
from towpath.objects.store import ObjectExists, ObjectNotFound, ObjectStoreError
from towpath.observe.metrics import Metrics
from towpath.runtime import inline_runtime

KEYS = {"access_key_id": "a", "secret_access_key": "geheim"}


@pytest.mark.parametrize(
    ("url", "place", "name", "root"),
    [
        ("s3://bucket/prefix", "bucket", "bucket", "/prefix"),
        ("s3://my.bucket", "bucket", "my.bucket", "/"),
        ("gcs://bucket/a/b/", "bucket", "bucket", "/a/b"),
        ("azblob://container/a b/%20", "container", "container", "/a b/%20"),
    ],
)
def test_what_a_url_names(url: str, place: str, name: str, root: str) -> None:
    service = service_of(url, {})
    assert service.scheme == url.partition(":")[0]
    assert service.options == {place: name, "root": root}


@pytest.mark.parametrize(
    "url",
    [
        "s4://bucket",
        "s3://",
        "s3:///prefix",
        "s3://bucket/../x",
        "s3://bucket/a//b",
        "s3://bucket?region=x",
        "s3://me@bucket",
        "gcs://bucket#x",
    ],
)
def test_urls_of_nothing(url: str) -> None:
    with pytest.raises(ValueError, match=r"unknown object store|names no bucket"):
        service_of(url, {})


def test_spellings_of_options() -> None:
    given = {"Access-Key-ID": "a", "secret.access.key": "b", "region": "c"}
    assert checked_options("s3", given) == {
        "access_key_id": "a",
        "secret_access_key": "b",
        "region": "c",
    }
    assert checked_options("gcs", {"credential_path": "/x"}) == {"credential_path": "/x"}
    assert checked_options("azblob", {"account-key": "x"}) == {"account_key": "x"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("secret_acess_key", ", did you mean 'secret_access_key'?"),
        ("frobnicate", "has no option 'frobnicate'$"),
        ("root", "has no option 'root'"),
        ("bucket", "has no option 'bucket'"),
    ],
)
def test_unknown_options_are_refused(name: str, hint: str) -> None:
    with pytest.raises(ObjectStoreError, match=hint.replace("?", r"\?")) as failure:
        checked_options("s3", {name: "geheim"})
    assert "geheim" not in str(failure.value)


def test_opening_asks_nobody() -> None:
    options = {"region": "nowhere", "endpoint": "http://127.0.0.1:1", **KEYS}
    store = open_object_store("s3://bucket/prefix", inline_runtime(1), Metrics(), options)
    assert not store.reads_are_cached


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"disable_config_load": "true"}, "objects_options: ConfigInvalid: region is missing"),
        ({"region": "x", "allow_anonymous": "maybe"}, "objects_options: .*'allow_anonymous'"),
    ],
)
def test_options_that_are_not_enough(options: dict[str, str], message: str) -> None:
    with pytest.raises(ObjectStoreError, match=message):
        open_object_store("s3://bucket", inline_runtime(1), Metrics(), {**options, **KEYS})


# Failures, in the library's own words

DENIED = exceptions.PermissionDenied(
    'PermissionDenied (permanent) at write => S3Error { code: "InvalidAccessKeyId", message: '
    '"The \\"key\\" is unknown.", resource: "/b/x", request_id: "1" }\n\nContext:\n   uri: '
    "http://host/b/x?sig=geheim\n"
)
REFUSED = exceptions.Unexpected(
    "Unexpected (temporary) at write => send http request\n\nContext:\n   url: http://h/?sig=geheim"
    "\n   service: s3\n\nSource:\n   error sending request: tcp connect error: Connection refused"
    "\n\nBacktrace:\n   0: <unknown>\n"
)
NO_KEY = exceptions.NotFound(
    'NotFound (permanent) at read => S3Error { code: "NoSuchKey", message: "The key is gone." }'
)
NO_BUCKET = exceptions.NotFound(
    'NotFound (permanent) at read => S3Error { code: "NoSuchBucket", message: "No bucket." }'
)
GCS = exceptions.NotFound(
    "NotFound (permanent) at write => GcsErrorResponse { error: GcsError { code: 404, message: "
    '"Not Found", errors: [] } }'
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DENIED, 'PermissionDenied: InvalidAccessKeyId: The \\"key\\" is unknown.'),
        (
            REFUSED,
            "Unexpected: send http request: error sending request: tcp connect error: Connection "
            "refused",
        ),
        (GCS, "NotFound: 404: Not Found"),
        (
            exceptions.NotFound("NotFound (permanent) at stat\n\nContext:"),
            "NotFound (permanent) at stat",
        ),
        (exceptions.Unexpected("some words"), "some words"),
        (exceptions.Unexpected(""), "Unexpected"),
    ],
)
def test_failures_in_one_line(error: Exception, text: str) -> None:
    assert explain(error) == text


def test_what_failures_mean() -> None:
    assert isinstance(translate("read", "a", NO_KEY), ObjectNotFound)
    assert isinstance(translate("delete", "a", NO_KEY), ObjectNotFound)
    for error in (translate("read", "a", NO_BUCKET), translate("write", "a", NO_KEY)):
        assert not isinstance(error, ObjectNotFound)
    assert str(translate("read", "a", NO_BUCKET)).endswith("NotFound: NoSuchBucket: No bucket.")
    exists = exceptions.ConditionNotMatch("ConditionNotMatch (permanent) at write")
    assert isinstance(translate("write", "a", exists), ObjectExists)
    assert not isinstance(translate("read", "a", exists), ObjectExists)


def test_which_failures_pass() -> None:
    assert is_temporary(REFUSED)
    assert not is_temporary(DENIED)
    assert is_temporary(exceptions.RateLimited("slow down"))
    conflict = 'Conflict (permanent) at write => S3Error { code: "ConditionalRequestConflict" }'
    assert is_temporary(exceptions.Conflict(conflict))


def test_all_failures_are_known() -> None:
    assert {exceptions.NotFound, exceptions.Unexpected, exceptions.Conflict} <= set(FAILURES)
