"""What OpenDAL's failures mean: one line each, without its context, which may hold signed URLs."""

from __future__ import annotations

import re

from opendal import exceptions

from towpath.objects.store import ObjectExists, ObjectNotFound, ObjectStoreError

FAILURES: tuple[type[Exception], ...] = tuple(
    kind
    for kind in vars(exceptions).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)
"""They have no base class of their own."""
TEXT_MAX = 500
"""Characters of a service's message that we pass on."""

_EXISTS = (exceptions.ConditionNotMatch, exceptions.AlreadyExists)
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_HEAD = re.compile(r"^(\w+) \(\w+\) at (?:[\w:]* )?=> (.*)$")
_ANSWER = re.compile(r'code: "?([^",]*)"?, message: "((?:[^"\\]|\\.)*)"')
_SOURCE = re.compile(r"^Source:\n\s+(.+)$", re.MULTILINE)


def is_temporary(error: Exception) -> bool:
    """Whether a repetition may succeed: the binding says so in the text alone. (S3 wants a write
    repeated that met another one of the same name.)"""
    text = str(error)
    return (
        isinstance(error, exceptions.RateLimited)
        or "(temporary)" in text
        or "ConditionalRequestConflict" in text
    )


def translate(operation: str, path: str, error: Exception) -> ObjectStoreError:
    """The failure of `operation` in our terms."""
    missing = isinstance(error, exceptions.NotFound)
    if missing and _NO_BUCKET.search(str(error)) is None and operation != "write":
        return ObjectNotFound(path)
    if isinstance(error, _EXISTS) and operation == "write":
        return ObjectExists(path)
    return ObjectStoreError(f"cannot {operation} {path}: {explain(error)}")


def explain(error: Exception) -> str:
    """Kind, message and cause in one line."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0]
    head = _HEAD.match(first)
    kind, message = (head[1], head[2]) if head else ("", first)
    answer = _ANSWER.search(message)
    if answer is not None:
        message = f"{answer[1]}: {answer[2]}"
    source = _SOURCE.search(text)
    parts = [part for part in (kind, message, source[1] if source else "") if part]
    return ": ".join(parts)[:TEXT_MAX]
