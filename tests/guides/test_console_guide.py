"""The guide of the console: what it says to type can be typed, and its questions to the API are answered."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.console.serving import serving
from tests.guides.test_command_line import typed_in

import ottla
from ottla.cli.commands.root import parse

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "console.md"
SECONDS = 30
# What the guide's examples say, and where the test has it.
ADDRESS = "http://127.0.0.1:8080"
STREAM_SECONDS = 3


@pytest.fixture(scope="module")
def console_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console with the token of the guide."""
    with ottla.Broker() as broker, ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([ottla.admin.NewTopic("orders", num_partitions=2)])
        with serving(broker.bootstrap_servers) as console:
            yield console.url.rstrip("/")


def questions() -> list[str]:
    return re.findall(r"^    (curl .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_commands_of_the_guide_can_be_typed() -> None:
    commands = typed_in(PAGE)
    assert len(commands) >= 4
    for words in commands:
        parse(words)


def test_the_guide_asks_the_api() -> None:
    assert len(questions()) >= 4


@pytest.mark.parametrize("question", questions())
def test_questions_of_the_guide_are_answered(console_url: str, question: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    words = shlex.split(question.replace(ADDRESS, console_url))
    is_stream = "-N" in words
    limit = ["--max-time", str(STREAM_SECONDS if is_stream else SECONDS)]
    done = subprocess.run(
        [*words, "--silent", "--show-error", "--fail-with-body", *limit],
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )
    if is_stream:
        assert "event: snapshot" in done.stdout, done
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert isinstance(json.loads(done.stdout), dict)
