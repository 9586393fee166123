"""The programs in README and the guides run as they stand."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla.aio

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# `text` is for what cannot run; tests/guides/test_command_line.py types what is in a `console`.
FENCES = {"python", "console", "text", "diff", "mermaid"}

# Pages whose blocks need names of a test: of the one below, and of tests/spark/test_source_in_spark.py.
PIECES = {"delivery-guarantees.md", "spark-source.md"}


# Libraries whose blocks are left out of a page's program: one with each runs below, where it is installed.
DATA_FRAMES = ("duckdb", "pandas", "polars")


def data_frames_of(block: str) -> str | None:
    """The library of data frames that a block imports."""
    return next((name for name in DATA_FRAMES if f"import {name}\n" in block), None)


def blocks_of(page: Path) -> list[str]:
    """The python blocks of a page."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [block for language, block in found if language == "python"]


def run(arguments: list[str], folder: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr


DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in DOCUMENTS if page.name not in PIECES and blocks_of(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_programs_of_a_page_run(page: Path, tmp_path: Path) -> None:
    tests = [block for block in blocks_of(page) if "def test_" in block]
    blocks = [block for block in blocks_of(page) if data_frames_of(block) is None]
    program = "\n".join(block for block in blocks if block not in tests)
    run(["-c", program], tmp_path)
    for number, block in enumerate(tests):
        path = tmp_path / f"test_{number}.py"
        path.write_text(block, encoding="utf-8")
        run(["-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)], tmp_path)


@pytest.mark.parametrize("name", DATA_FRAMES)
def test_records_go_into_data_frames_in_one_line(name: str, tmp_path: Path) -> None:
    pytest.importorskip(
        name, reason=f"{name} is not installed: the guide's line for it was not run"
    )
    blocks = blocks_of(GUIDES / "consuming.md")
    wanted = [block for block in blocks if data_frames_of(block) in (None, name)]
    assert any(data_frames_of(block) == name for block in wanted)
    # Not with warnings as errors: they are the library's own.
    result = subprocess.run(
        [sys.executable, "-c", "\n".join(wanted)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_blocks_say_what_they_are(page: Path) -> None:
    languages = {language for language, _ in FENCE.findall(page.read_text(encoding="utf-8"))}
    assert languages <= FENCES


class EnoughError(Exception):
    """Ends a loop that would go on for ever."""


def test_the_loops_of_delivery_guarantees_run() -> None:
    """Each handles all records in order, up to the one at which its handler raises."""
    values = [b"%d" % number for number in range(10)]
    loops = blocks_of(GUIDES / "delivery-guarantees.md")
    assert len(loops) == 3
    with (
        ottla.Broker() as broker,
        ottla.Producer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="loops"
        ) as producer,
    ):
        producer.init_transactions()
        with producer.transaction():
            producer.send_many("orders", values)
        options = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        for number, loop in enumerate(loops):
            handled: list[bytes] = []

            def handle(value: bytes, handled: list[bytes] = handled) -> bytes:
                handled.append(value)
                if len(handled) == len(values):
                    raise EnoughError
                return value

            with ottla.Consumer(options, group_id=f"loop-{number}") as consumer:
                consumer.subscribe(["orders"])
                names = {"consumer": consumer, "producer": producer}
                with pytest.raises(EnoughError):
                    exec(loop, {**names, "handle": handle, "transform": handle})
            assert handled == values


def test_the_guides_have_programs() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "producing.md", "consuming.md", "transactions.md"} <= names


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
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
