"""What an object may be called: one rule for every store, so that data can move between them."""

from __future__ import annotations

from towpath.objects.store import ObjectStoreError

RESERVED_SEGMENT = ".towpath"
"""The first segment that a store keeps for itself (temporary files, probes)."""

PATH_LIMIT_BYTES = 1024
"""What S3, GCS and Azure accept at most."""


class InvalidObjectPath(ObjectStoreError):
    """The path is not the name of an object; nothing was touched, and a repetition is futile."""


def check_path(path: str) -> str:
    """Return `path` if it can name an object, else raise InvalidObjectPath.

    Relative, `/` between segments, none of them empty, `.` or `..`, no NUL, valid UTF-8.
    """
    problem = _problem(path)
    if problem is not None:
        raise InvalidObjectPath(f"{path[:200]!r} cannot name an object: {problem}")
    return path


def is_path(path: str) -> bool:
    """Whether `path` can name an object."""
    return _problem(path) is None


def _problem(path: str) -> str | None:
    try:
        size_bytes = len(path.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if size_bytes > PATH_LIMIT_BYTES:
        return f"it is longer than {PATH_LIMIT_BYTES} bytes"
    if "\0" in path:
        return "it holds a NUL"
    segments = path.split("/")
    if "" in segments:
        return "a segment is empty"
    if "." in segments or ".." in segments:
        return "a segment is '.' or '..'"
    if segments[0] == RESERVED_SEGMENT:
        return f"{RESERVED_SEGMENT!r} is reserved"
    return None
