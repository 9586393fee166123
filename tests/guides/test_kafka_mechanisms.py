"""The page that leads from Kafka's mechanisms to the code leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kafka-mechanisms.md"


def named_paths() -> list[Path]:
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE.read_text(encoding="utf-8"))
    outside = ("tests/", "examples/")
    return [
        ROOT / path if path.startswith(outside) else ROOT / "src/ottla" / path for path in named
    ]


def test_paths_exist() -> None:
    paths = named_paths()
    assert len(paths) > 100
    assert [path for path in paths if not path.exists()] == []


def test_every_example_is_named() -> None:
    assert set((ROOT / "examples").glob("*.py")) <= set(named_paths())


def test_every_mechanism_has_a_module_and_a_test() -> None:
    rows = re.findall(r"^\| (?!---|Kafka's mechanism|in Spring)(.*) \|$", PAGE.read_text(), re.M)
    for row in rows:
        assert "`tests/" in row, row
    assert len(rows) > 45
