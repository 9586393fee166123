"""The programs in the guides run as they stand."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla.aio

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# Pages whose blocks are pieces of programs: of those in examples/, and of what tests/spark runs in Spark.
PIECES = {"delivery-guarantees.md", "spark-source.md"}


def program_of(page: Path) -> str:
    return "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))


PAGES = sorted(
    page.name for page in GUIDES.glob("*.md") if page.name not in PIECES and program_of(page)
)


@pytest.mark.parametrize("name", PAGES)
def test_the_programs_of_a_guide_run(name: str) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program_of(GUIDES / name)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_the_guides_have_programs() -> None:
    assert {"producing.md", "consuming.md", "transactions.md"} <= set(PAGES)


@pytest.mark.parametrize("page", sorted(GUIDES.glob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_page_on_consuming_says_what_is_to_be_awaited() -> None:
    text = (GUIDES / "consuming.md").read_text(encoding="utf-8")
    row = re.search(r"^\| coroutines.*\n\|---\|---\|\n\|(.*)\|(.*)\|$", text, re.MULTILINE)
    assert row is not None
    awaited, plain = (set(re.findall(r"`(\w+)`", cell)) for cell in row.groups())
    for names, is_awaited in ((awaited, True), (plain, False)):
        for name in names:
            method = getattr(ottla.aio.Consumer, name)
            assert inspect.iscoroutinefunction(method) is is_awaited, name
    public = {name for name in vars(ottla.Consumer) if not name.startswith("_")}
    assert awaited | plain == public
