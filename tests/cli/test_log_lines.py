"""The log of `ottla serve`: for people, for programs, and safe from both."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.terminal import log_lines
from ottla.events import EventLog

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "serving.md"
# The calls that log an event: of a logger, of a turn, of limited refusals, or of a helper in the module that takes the
# event's name.
TELLS = re.compile(
    r"^(logger\.(debug|info|warning|error|bug)|turn\.log|.*\brefusals\.warn|(self\.)?_?log_\w+)$"
)


class Terminal(io.StringIO):
    """Text that a terminal shows."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def logger() -> Iterator[EventLog]:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    yield EventLog("ottla.test")
    root.handlers, root.level = before[0], before[1]
    root.setLevel(before[1])


class OfThisTest(logging.Filter):
    """Leaves out what brokers of other tests in this process tell meanwhile."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name == "ottla.test" or not record.name.startswith("ottla")


def begin(form: str, level: str, stream: io.StringIO) -> logging.Handler:
    handler = log_lines.set_up_logging(form, level, stream)
    handler.addFilter(OfThisTest())
    return handler


def lines_of(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_a_line_has_time_level_and_sentence(logger: EventLog) -> None:
    stream = io.StringIO()
    begin("text", "info", stream)
    logger.info("topic_created", "topic %(topic)s created", topic="orders", partitions=3)
    logger.debug("topic_created", "not seen")
    (line,) = lines_of(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO    topic orders created", line)


def test_a_json_line_has_event_message_and_fields(logger: EventLog) -> None:
    stream = io.StringIO()
    begin("json", "debug", stream)
    logger.warning("topic_created", "topic %(topic)s created", topic="or\nders", partitions=3)
    logging.getLogger("other").error("plain %s", "text")
    first, second = (json.loads(line) for line in lines_of(stream))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "warning",
        "event": "topic_created",
        "message": "topic or\nders created",
        "logger": "ottla.test",
        "topic": "or\nders",
        "partitions": 3,
    }
    assert (second["event"], second["message"]) == (None, "plain text")


def test_names_that_clients_choose_do_not_break_lines_or_terminals(logger: EventLog) -> None:
    stream = Terminal()
    begin("text", "info", stream)
    logger.info("member_left", "group %(group)s", group="a\n2026 ERROR \x1b[2Jb\u2028c\r")
    (line,) = stream.getvalue().split("\n")[:-1]
    assert line.endswith(r"group a\n2026 ERROR \x1b[2Jb\u2028c\r")


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_colours_are_for_terminals(
    logger: EventLog, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    begin("text", "info", stream)
    logger.error("storage_failed", "trouble")
    assert ("\x1b[31m" in stream.getvalue()) == stream.isatty()


def test_a_bug_is_told_with_where_it_happened(logger: EventLog) -> None:
    stream = io.StringIO()
    begin("json", "info", stream)
    try:
        raise ValueError("a bug of ours")
    except ValueError as error:
        logger.bug("request_failed", "a request from %(peer)s failed", error, peer="h:1")
    (line,) = (json.loads(line) for line in lines_of(stream))
    assert line["message"] == "a request from h:1 failed"
    assert "test_log_lines.py" in line["trace"]


def test_clients_cannot_fill_the_log(logger: EventLog) -> None:
    stream = io.StringIO()
    now = [0.0]
    handler = begin("text", "info", stream)
    handler.filters = [OfThisTest(), log_lines.RepeatLimit(lambda: now[0])]
    for _ in range(1000):
        logger.warning("connection_refused", "connection from %(peer)s refused", peer="h:1")
        logger.info("topic_created", "a topic")
    refused = [line for line in lines_of(stream) if "refused" in line]
    assert len(refused) == log_lines.LINES
    assert len(lines_of(stream)) == log_lines.LINES + 1000, "other events are not limited"
    now[0] += log_lines.SECONDS
    logger.warning("connection_refused", "connection from %(peer)s refused", peer="h:2")
    assert lines_of(stream)[-1].endswith(
        "connection from h:2 refused (900 more like this were left out before)"
    )


def trees() -> Iterator[ast.Module]:
    for part in ("broker", "doors", "storage", "core", "cli", "schemas/registry"):
        for path in (ROOT / "src" / "ottla" / part).rglob("*.py"):
            yield ast.parse(path.read_text(encoding="utf-8"))


def told_in_the_source() -> dict[str, set[str] | None]:
    """The events and their fields; None where these are given in another way than by name."""
    found: dict[str, set[str] | None] = {}
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and TELLS.search(ast.unparse(node.func)):
                event = node.args[0]
                if isinstance(event, ast.Constant) and isinstance(event.value, str):
                    names = {keyword.arg for keyword in node.keywords}
                    is_helper = re.search(r"\blog_|\b_log_|refusals", ast.unparse(node.func))
                    direct = is_helper is None and None not in names
                    fields = {name for name in names if name} if direct else None
                    earlier = found.get(event.value)
                    found[event.value] = (
                        earlier | fields if earlier and fields else earlier or fields
                    )
    return found


def on_the_page() -> dict[str, set[str]]:
    text = PAGE.read_text(encoding="utf-8").partition("## Metrics")[0]
    rows = re.findall(r"^\| `(\w+)` \| \w+ \|.*\| ([\w, ]*) \|$", text, re.MULTILINE)
    return {event: set(fields.split(", ")) - {""} for event, fields in rows}


def test_the_page_lists_every_event_with_its_fields() -> None:
    listed, told = on_the_page(), told_in_the_source()
    assert set(listed) == set(told)
    for event, fields in told.items():
        if fields is not None:
            assert listed[event] <= fields, event
            assert fields - listed[event] <= {"path"}, event


def test_no_field_has_a_name_that_every_line_has() -> None:
    for event, fields in told_in_the_source().items():
        assert not (fields or set()) & set(log_lines.RESERVED), event
