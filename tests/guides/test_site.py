"""The documentation site builds without a warning, and has every page and every public name."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
import ottla.aio

ROOT = Path(__file__).parents[2]
NEEDED = ("mkdocs", "material", "mkdocstrings")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"pip install 'ottla[docs]' brings what the site is built with: {missing}")
    folder = tmp_path_factory.mktemp("site")
    # Without --quiet: it hides warnings from --strict too.
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.long
def test_the_site_has_every_page(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html")
        shown = site / (place.with_name("index.html") if place.name == "README.html" else place)
        assert shown.exists(), page
    assert 'class="mermaid"' in (site / "architecture.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_reference_has_every_public_name(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    shown = set(re.findall(r'<h[2-6] id="([\w.]+)"', text))
    assert {f"ottla.{name}" for name in ottla.__all__} <= shown
    assert {f"ottla.aio.{name}" for name in ottla.aio.__all__} <= shown
    assert {"ottla.spark.Pipeline", "ottla.testing.plugin.ottla_broker"} <= shown


@pytest.mark.long
def test_methods_of_blocking_clients_have_signatures(site: Path) -> None:
    text = (site / "reference" / "clients.html").read_text(encoding="utf-8")
    for method in ("Producer.flush", "Producer.commit_transaction", "Consumer.seek"):
        start = text.index(f'id="ottla.{method}"')
        assert "<p>" in text[start : text.index("<h3", start)], method
    assert "waiting(" not in text
