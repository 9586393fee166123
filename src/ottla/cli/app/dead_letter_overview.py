"""`ottla app dlt list` and `show`."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ottla.app.letters.header_names import without_history
from ottla.app.letters.topic_names import parse_letter_topic
from ottla.cli.app.dead_letters import LetterFilter, dead_letter_topics, letter_reader
from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError
from ottla.cli.exit_codes import DONE
from ottla.cli.records.text import data_of
from ottla.cli.terminal.output import Output, Row, columns, repeat, say
from ottla.inspection.dead_letters.letters import Letter, LetterReader, LetterSpan
from ottla.inspection.json_lines import JsonRecordFormatter

if TYPE_CHECKING:
    from ottla.client.admin_model.topics import TopicDescription

TOPICS: Final = columns(
    topic="TOPIC",
    source="SOURCE",
    group="GROUP",
    letters="LETTERS",
    done="DONE",
    newest="NEWEST",
    most_frequent="MOST FREQUENT ERROR",
)
LETTERS: Final = columns(
    topic="TOPIC",
    partition="PARTITION",
    offset="OFFSET",
    time="TIME",
    key="KEY",
    attempts="ATTEMPTS",
    error="ERROR",
    message="MESSAGE",
)
LETTERS_AND_STATE: Final = (*LETTERS, *columns(state="STATE"))
_MESSAGE_CHARS: Final = 60
_NULL: Final = b""


def list_letters(arguments: Arguments) -> int:
    """List dead-letter topics, or the letters of those that are named."""
    wanted = LetterFilter.of(arguments)
    span = LetterSpan(wanted.partitions)
    output = Output(arguments.form)
    with admin_of(arguments) as admin, letter_reader(arguments) as reader:

        def show() -> int:
            topics = dead_letter_topics(admin, arguments.topics)
            if output.is_table and not topics:
                say("there are no dead-letter topics")
            if not arguments.topics:
                names = [*admin.list_topics()]
                rows = [_topic_row(topic, reader, wanted, names) for topic in topics.values()]
                output.rows(TOPICS, rows)
                return DONE
            found = [
                _letter_row(letter, output)
                for topic in topics.values()
                for letter in reader.letters(topic, reader.done_of(topic), span)
                if wanted.accepts(letter) and (arguments.all or not letter.is_done)
            ]
            if output.is_table and not found:
                say("there are no such letters")
            output.rows(LETTERS_AND_STATE if arguments.all else LETTERS, found)
            return DONE

        return repeat(arguments.watch, show)


def _topic_row(
    topic: TopicDescription, reader: LetterReader, wanted: LetterFilter, names: list[str]
) -> Row:
    done = open_letters = 0
    newest_ms: int | None = None
    errors: Counter[str] = Counter()
    sources: set[tuple[str | None, str | None]] = set()
    for letter in reader.letters(topic, reader.done_of(topic)):
        if not wanted.accepts(letter):
            continue
        history = letter.history
        if history is not None:
            sources.add((history.topic, history.group))
        if letter.is_done:
            done += 1
            continue
        open_letters += 1
        newest_ms = max(newest_ms or 0, letter.record.timestamp_ms)
        errors[(history and history.error) or "unknown"] += 1
    if not sources:
        parsed = parse_letter_topic(topic.name, names)
        sources = {(None, None) if parsed is None else (parsed.topic, parsed.group)}
    by_count = errors.most_common()
    return {
        "topic": topic.name,
        "source": ",".join(sorted({source or "-" for source, _ in sources})),
        "group": ",".join(sorted({group or "-" for _, group in sources})),
        "letters": open_letters,
        "done": done,
        "newest": None if newest_ms is None else _time(newest_ms),
        "errors": dict(by_count),
        "most_frequent": f"{by_count[0][0]} ({by_count[0][1]})" if by_count else None,
    }


def _letter_row(letter: Letter, output: Output) -> Row:
    record, history = letter.record, letter.history
    row: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time": _time(record.timestamp_ms),
        "key": _text(record.key),
        "state": "done" if letter.is_done else "open",
    }
    if history is None:
        return {**row, "attempts": None, "error": None, "message": "no history in its headers"}
    message = history.message or ""
    if output.is_table and len(message) > _MESSAGE_CHARS:
        message = message[: _MESSAGE_CHARS - 1] + "…"
    return {
        **row,
        "attempts": history.attempts,
        "error": history.error,
        "message": message,
        "source": history.topic,
        "source_partition": history.partition,
        "source_offset": history.offset,
        "group": history.group,
        "listener": history.listener,
    }


def show_letter(arguments: Arguments) -> int:
    """Show one letter whole."""
    with admin_of(arguments) as admin, letter_reader(arguments) as reader:
        (topic,) = dead_letter_topics(admin, [arguments.letter_topic]).values()
        done = reader.done_of(topic)
        letters = reader.letters(topic, done, LetterSpan(frozenset([arguments.letter_partition])))
        found = next(
            (each for each in letters if each.record.offset == arguments.letter_offset), None
        )
    if found is None:
        raise CommandError(
            f"{arguments.letter_topic}-{arguments.letter_partition} has no letter at offset "
            f"{arguments.letter_offset}",
            f"`ottla app dlt list {arguments.letter_topic}` shows which there are",
        )
    fields = _whole(found)
    output = Output(arguments.form)
    if not output.is_table:
        output.data(fields)
        return DONE
    lines = [f"{name.replace('_', ' ')}: {_shown(value)}" for name, value in fields.items()]
    output.lines(lines)
    return DONE


def _whole(letter: Letter) -> dict[str, Any]:
    record, history = letter.record, letter.history
    own = record._replace(headers=without_history(record.headers))
    # Bytes that are no text as {"base64": …}, as everywhere else.
    plain = json.loads(JsonRecordFormatter()(own))
    fields: dict[str, Any] = {
        "letter": letter.place,
        "time": _time(record.timestamp_ms),
        "state": "done" if letter.is_done else "open",
    }
    if history is not None:
        fields |= {
            "source": f"{history.topic}-{history.partition} offset {history.offset}",
            "source_time": _time(history.timestamp_ms),
            "group": history.group,
            "listener": history.listener,
            "attempts": history.attempts,
            "first_failed": _time(history.first_failed_ms),
            "last_failed": _time(history.last_failed_ms),
            "error": history.error,
            "cause": history.cause,
            "message": history.message,
        }
    fields |= {name: plain[name] for name in ("key", "headers", "value")}
    if history is not None:
        fields["traceback"] = history.traceback
    return fields


def _shown(value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\n" not in text.strip():
        return text.strip()
    return "".join(f"\n  {line}" for line in text.rstrip().splitlines())


def _time(milliseconds: int | None) -> str | None:
    """A time as ISO 8601 in UTC; None for one that is not known or beyond what dates can say."""
    if milliseconds is None or milliseconds < 0:
        return None
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(data: bytes | None) -> str | None:
    return None if data is None else data_of(data, _NULL).decode("utf-8", "backslashreplace")
