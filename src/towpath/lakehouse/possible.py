"""Whether settings can make tables at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from towpath.lakehouse.iceberg.locations import root_uri

if TYPE_CHECKING:
    from towpath.config.settings import Settings


def why_no_tables(settings: Settings) -> str | None:
    """One line about what stands in the way; None if nothing does."""
    if settings.metadata_path() is None:
        return "metadata_url memory:// is one broker's own, and tables need a shared one"
    try:
        root_uri(settings.objects_url, settings.objects_options)
    except ValueError as error:
        return f"objects_url: {error}"
    return None
