"""Whether a broker is alive for the others, as a condition of what it writes.

A broker may be stopped for so long that the others take it for dead and its clients go elsewhere.
When it goes on, the requests that it had taken before are of the past: writes on their behalf are
conditional on the registration that the broker had when they came.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from towpath.metadata.store import KeyIs

Registration = Callable[[], KeyIs | None]
"""The condition under which this broker counts as alive; None while it is not registered."""


@dataclass(frozen=True, slots=True)
class Asked:
    """When a request came, as far as that counts: with which registration."""

    alive: KeyIs | None
