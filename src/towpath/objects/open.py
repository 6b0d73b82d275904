"""Object stores by URL."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from towpath.objects.fs import FsObjectStore
from towpath.objects.measured import MeasuredObjectStore
from towpath.objects.services import service_of
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime


def open_object_store(
    url: str, runtime: Runtime, metrics: Metrics, options: Mapping[str, str] | None = None
) -> ObjectStore:
    """The store that `url` names: `file:///path`, a plain path, `memory://`, or a service with its
    `options` (see `services`). A service is not asked anything yet.

    Raises ValueError for a URL that names none, ObjectStoreError if it cannot be opened.
    """
    return MeasuredObjectStore(_open(url, runtime, options or {}), metrics)


def _open(url: str, runtime: Runtime, options: Mapping[str, str]) -> ObjectStore:
    if "://" not in url:
        if not url:
            raise ValueError("the object store's URL is empty")
        return FsObjectStore(url, runtime)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or parts.path in ("", "/"):
            raise ValueError(f"{url!r} names no directory; write file:///path/to/objects")
        return FsObjectStore(unquote(parts.path), runtime)
    return _open_service(url, parts.scheme, runtime, options)


def _open_service(
    url: str, scheme: str, runtime: Runtime, options: Mapping[str, str]
) -> ObjectStore:
    # OpenDAL takes 0.2 s to load, and files do not need it.
    import opendal

    from towpath.objects.opendal_store import OpendalStore, open_service

    if scheme == "memory":
        return OpendalStore(opendal.AsyncOperator("memory"), runtime)
    return OpendalStore(open_service(service_of(url, options)), runtime)
