"""The documents name files that exist, and every requirement id once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from towpath.config import load_settings
from towpath.lakehouse.iceberg.open import catalog_settings
from towpath.objects.services import checked_options

ROOT = Path(__file__).parents[2]
CONFORMANCE = (ROOT / "docs/conformance.md").read_text()
DEVIATIONS = (ROOT / "docs/deviations.md").read_text()
ROWS = re.findall(
    r"^\| (R-[A-Z]+-\d+) \| (.*?) \| ?(.*?) ?\| ?(.*?) ?\|$", CONFORMANCE, re.MULTILINE
)


def places(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def exists(place: str, *roots: str) -> bool:
    return any((ROOT / root / place).exists() for root in roots)


def test_conformance_rows_name_what_exists() -> None:
    missing = []
    for requirement, where, tests, note in ROWS:
        if where == "not yet":
            assert not tests, requirement
            continue
        missing += [place for place in places(where) if not exists(place, "src/towpath", ".")]
        missing += [place for place in places(tests) if not exists(place, "tests", ".")]
        deviations = re.findall(r"\b[SK]\d+\b", note)
        missing += [number for number in deviations if f"| {number} |" not in DEVIATIONS]
    assert not missing


def test_every_requirement_stands_once() -> None:
    ids = [row[0] for row in ROWS]
    assert len(ids) == len(set(ids))
    assert len(ids) == CONFORMANCE.count("\n| R-")
    numbers: dict[str, list[int]] = {}
    for found in ids:
        group, _, number = found.rpartition("-")
        numbers.setdefault(group, []).append(int(number))
    assert all(listed == list(range(1, len(listed) + 1)) for listed in numbers.values())


def test_examples_of_settings_can_be_loaded(tmp_path: Path) -> None:
    environ = {"S3_KEY": "key", "S3_SECRET": "secret"}
    examples = re.findall(
        r"^```yaml\n(.*?)^```$", (ROOT / "docs/catalogs.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(examples) == 5
    for number, example in enumerate(examples):
        file = tmp_path / f"{number}.yaml"
        file.write_text(example)
        settings = load_settings(file, environ=environ).settings
        scheme = settings.objects_url.partition(":")[0]
        if scheme != "file":
            checked_options(scheme, settings.objects_options)
        assert catalog_settings(settings).type in ("sql", "rest", "glue", "hive")


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_a_page_names_what_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    for place in re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.proto)?)`", text):
        assert exists(place, "src/towpath", "src/towpath/kafka", "."), place
