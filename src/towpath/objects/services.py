"""Which service of Apache OpenDAL a URL and options name: `s3://bucket/prefix` and its like.

Options have OpenDAL's own names; dots, dashes and underscores are equal. OpenDAL ignores names it
does not know, and a misspelt credential would silently be taken from the environment: so names are
checked here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from towpath.objects.paths import is_path
from towpath.objects.store import ObjectStoreError

PLACES: Mapping[str, str] = {"s3": "bucket", "gcs": "bucket", "azblob": "container"}
"""What each service calls the first part of its URL."""
EXPECTED = "file:///path, a plain path, memory://, " + ", ".join(
    f"{scheme}://{place}/path" for scheme, place in PLACES.items()
)
FROM_URL = frozenset({"scheme", "bucket", "container", "root"})
SUGGESTION_CUTOFF = 0.6


class Service(NamedTuple):
    """An OpenDAL service and everything it needs to be opened, secrets too."""

    scheme: str
    options: Mapping[str, str]


def service_of(url: str, options: Mapping[str, str]) -> Service:
    """The service of `url`. ValueError for a URL that names none, ObjectStoreError for options that
    it does not have."""
    parts = urlsplit(url)
    if parts.scheme not in PLACES:
        raise ValueError(f"unknown object store {url!r}: expected {EXPECTED}")
    prefix = parts.path.strip("/")
    is_plain = not (parts.query or parts.fragment or set("@:") & set(parts.netloc))
    if not parts.netloc or not is_plain or (prefix and not is_path(prefix)):
        place = PLACES[parts.scheme]
        raise ValueError(f"{parts.scheme}:// names no {place}; write {parts.scheme}://{place}/path")
    where = {PLACES[parts.scheme]: parts.netloc, "root": f"/{prefix}"}
    return Service(parts.scheme, {**checked_options(parts.scheme, options), **where})


def checked_options(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options under OpenDAL's own names; ObjectStoreError for one that there is not."""
    known = _known_options(scheme) if options else frozenset()
    result = {}
    for name, value in options.items():
        plain = plain_name(name)
        if plain not in known:
            close = difflib.get_close_matches(plain, known, n=1, cutoff=SUGGESTION_CUTOFF)
            hint = f", did you mean {close[0]!r}?" if close else ""
            raise ObjectStoreError(f"objects_options: {scheme} has no option {name!r}{hint}")
        result[plain] = value
    return result


def plain_name(name: str) -> str:
    """An option's name as OpenDAL spells it."""
    return re.sub(r"[.\-]+", "_", name.strip().lower())


def _known_options(scheme: str) -> frozenset[str]:
    from opendal import config

    by_scheme = {"s3": config.S3Config, "gcs": config.GcsConfig, "azblob": config.AzblobConfig}
    return frozenset(by_scheme[scheme].__annotations__) - FROM_URL
