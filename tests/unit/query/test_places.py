"""A data directory alone leads where the settings lead that say nothing but it."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.config.settings import Settings
from towpath.query.places import DataDirectory


@pytest.mark.parametrize(
    "name", ["data", "./a/../data", "/var/lib/towpath", "~/data", "with space", "ünï", "a%20b", "."]
)
def test_both_name_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    alone, settings = DataDirectory.at(name), Settings.model_validate({"data_dir": name})
    assert alone.path == settings.data_dir
    assert alone.metadata_path() == settings.metadata_path()
    assert alone.objects_path() == settings.objects_path()
    assert alone.objects_url == settings.objects_url
    assert alone.objects_options == settings.objects_options
