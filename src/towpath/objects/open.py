"""Object stores by URL."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import opendal

from towpath.objects.fs import FsObjectStore
from towpath.objects.measured import MeasuredObjectStore
from towpath.objects.opendal_store import OpendalStore
from towpath.objects.store import ObjectStore
from towpath.observe.metrics import Metrics
from towpath.runtime import Runtime


def open_object_store(url: str, runtime: Runtime, metrics: Metrics) -> ObjectStore:
    """The store that `url` names: `file:///path`, a plain path, or `memory://`.

    Raises ValueError for a URL that names none, ObjectStoreError if it cannot be opened.
    """
    return MeasuredObjectStore(_open(url, runtime), metrics)


def _open(url: str, runtime: Runtime) -> ObjectStore:
    if "://" not in url:
        if not url:
            raise ValueError("the object store's URL is empty")
        return FsObjectStore(url, runtime)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or parts.path in ("", "/"):
            raise ValueError(f"{url!r} names no directory; write file:///path/to/objects")
        return FsObjectStore(unquote(parts.path), runtime)
    if parts.scheme == "memory":
        return OpendalStore(opendal.AsyncOperator("memory"), runtime)
    raise ValueError(
        f"unknown object store {url!r}: expected file:///path, a plain path, or memory://"
    )
