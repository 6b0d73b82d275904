"""Regular expressions of members: RE2 syntax, as in Kafka, matched against whole topic names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from towpath.groups.consumer.refusal import Refused
from towpath.kafka.codec.error_codes import ErrorCode

if TYPE_CHECKING:
    from towpath.topics.interface import Topics

REGEX_MAX_MEMORY_BYTES = 8 << 20
"""What RE2 may use for one expression; it then matches in time linear to the name."""

_KAFKA_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "trailing \\": "trailing backslash at end of expression",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "unexpected )": "regexp/syntax: internal error",
}
"""What RE2 says, and what Kafka's Java port of it says of the same mistake."""


def check_regex(regex: str) -> None:
    """Refuse what is not a regular expression."""
    import re2

    try:
        _compile(regex)
    except re2.error as error:
        said = error.args[0]
        words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        reason = next(
            (kafkas for ours, kafkas in _KAFKA_WORDS.items() if words.startswith(ours)), None
        )
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: "
            f"{reason or words.rpartition(': ')[0] or words}.",
        ) from error


def resolve(
    regexes: Iterable[str], known: Mapping[str, frozenset[str]], topics: Topics
) -> dict[str, frozenset[str]]:
    """The topics that each expression stands for; those in `known` are not looked for again."""
    return {
        regex: known[regex] if regex in known else _matching(regex, topics)
        for regex in sorted(regexes)
    }


def _matching(regex: str, topics: Topics) -> frozenset[str]:
    pattern = _compile(regex)
    return frozenset(topic.name for topic in topics.all() if pattern.fullmatch(topic.name))


def _compile(regex: str) -> Any:
    # Imported on first use: few groups have regular expressions.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = REGEX_MAX_MEMORY_BYTES
    return re2.compile(regex, options=options)
