"""The page about the command line is what a terminal shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.guides.console import Step, steps_of, terminal

from ottla.cli.main import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "command-line.md"
README = Path(__file__).parents[2] / "README.md"


@pytest.mark.timeout(240)
def test_the_page_shows_what_a_terminal_shows(tmp_path: Path) -> None:
    """`python -m tests.guides.console docs/guides/command-line.md` writes the page anew."""
    with terminal(tmp_path) as opened:
        for step in steps_of(PAGE.read_text(encoding="utf-8")):
            shown = opened.run(step.command)
            assert step.masked(shown) == step.masked(step.printed), step.command
        assert opened.close() == 0


def test_the_page_has_every_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"ottla (\w+)", text))
    assert set(COMMANDS) - {"pipeline", "demo"} <= named


@pytest.mark.parametrize(
    ("command", "one", "other", "is_same"),
    [
        ("ottla topics list", "orders  3\n", "orders 3\n", True),
        ("ottla topics list", "orders 3\n", "orders 4\n", False),
        ("ottla topics list", "a\nb\n", "b\na\n", False),
        ("ottla consume t", "a\nb\n", "b\na\n", True),
        ("ottla consume t", "a\nb\n", "a\na\n", False),
        ("ottla perf produce t", "10 records, 5.1 ms\n", "10 records, 6 ms\n", True),
        ("ottla perf produce t", "10 records, 5.1 ms\n", "10 records\n", False),
        ("ottla serve", "ready in 0.1 s\n", "ready in 0.2 s\n", True),
    ],
)
def test_what_is_compared_can_differ(command: str, one: str, other: str, is_same: bool) -> None:
    step = Step(command, one)
    assert (step.masked(one) == step.masked(other)) is is_same
