"""Where tables and their files are: URIs in the table, relative paths in the object store.

URIs are never quoted: pyiceberg, Hadoop and DuckDB all take them literally.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from towpath.lakehouse.iceberg.storage import AZURE_DOMAIN, azure_account


def root_uri(objects_url: str, objects_options: Mapping[str, str] | None = None) -> str:
    """The URI of the object store's root, as tables write it: no `/` at its end.

    Takes what `open_object_store` takes. Raises ValueError for stores Iceberg cannot read, and for
    `?` or `#` in a path, which its readers would cut off.
    """
    if "://" not in objects_url:
        uri = f"file://{Path(objects_url).absolute()}"
    else:
        parts = urlsplit(objects_url)
        if parts.scheme == "memory":
            raise ValueError("tables need an object store that others can read, not memory://")
        path = unquote(parts.path) if parts.scheme == "file" else parts.path
        host = "" if parts.scheme == "file" else parts.netloc
        uri = f"{_service_root(parts.scheme, host, objects_options or {})}{path}"
    if "?" in uri or "#" in uri:
        raise ValueError(f"tables cannot be in {uri!r}: '?' and '#' end a path for their readers")
    return uri.rstrip("/")


def _service_root(scheme: str, host: str, objects_options: Mapping[str, str]) -> str:
    """Scheme and host as Iceberg's readers spell them."""
    if scheme == "gcs":
        return f"gs://{host}"
    if scheme == "azblob":
        account = azure_account(objects_options)
        if account is None:
            raise ValueError("tables need the storage account: set account_name in objects_options")
        return f"abfss://{host}@{account}.{AZURE_DOMAIN}"
    return f"{scheme}://{host}"


class Locations:
    """The URIs of one cluster's tables and files."""

    def __init__(self, objects_root_uri: str, cluster_prefix: str) -> None:
        self._root = objects_root_uri.rstrip("/") + "/"
        self._prefix = cluster_prefix

    def table(self, topic: str) -> str:
        """Where a topic's table keeps its metadata."""
        return f"{self._root}{self._prefix}/iceberg/topic={topic}"

    def uri(self, path: str) -> str:
        """The URI of an object."""
        return self._root + path

    def path(self, uri: str) -> str | None:
        """The path in the object store; None for what is not in it."""
        for spelling in (uri, _three_slashes(uri)):
            if spelling.startswith(self._root):
                return spelling[len(self._root) :]
        return None


def _three_slashes(uri: str) -> str:
    """`file:/path`, as Hadoop writes it, the way we do."""
    if uri.startswith("file:/") and not uri.startswith("file://"):
        return "file://" + uri[len("file:") :]
    return uri
