"""The page about the command line is what a terminal shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from tests.guides.console import Step, steps_of, terminal

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.root import parse
from ottla.cli.commands.syntax import usage_error_text

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
    named = set(re.findall(r"ottla ([\w-]+)", text))
    assert set(SUMMARIES) <= named


def typed_in(page: Path) -> list[list[str]]:
    """Commands that a page shows without what they print: in indented lines, and at the end of a table's row."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^    (?:.*\| )?ottla (.*)$", text, re.MULTILINE)
    lines += re.findall(r"\| `ottla ([^`]*)` \|$", text, re.MULTILINE)
    return [shlex.split(re.sub(r" +#.*| &$", "", line)) for line in lines]


@pytest.mark.parametrize("page", [README, PAGE, PAGE.with_name("serving.md")], ids=lambda p: p.name)
def test_what_pages_say_to_type_can_be_typed(page: Path) -> None:
    commands = typed_in(page)
    assert len(commands) > 3
    for words in commands:
        refused = ""
        try:
            parse(words)
        except click.UsageError as error:
            refused = usage_error_text(error)
        # A table may leave out what everybody has to fill in.
        assert not refused or "required" in refused, words


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
