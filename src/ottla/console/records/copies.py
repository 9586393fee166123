"""One record as a line of JSON, and as commands that read it or write it again."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.console.records.windows import AnyRecord
from ottla.inspection.json_lines import JsonRecordFormatter

# Shells take no longer lines.
MAX_COMMAND_BYTES: Final = 100_000
_DELIMITER: Final = r"\x1e"


@dataclass(frozen=True)
class Copy:
    """A text to copy; None with the reason where there is none."""

    label: str
    text: str | None
    problem: str | None = None


@dataclass(frozen=True)
class RecordCopies:
    """What can be copied of a record."""

    json: str
    """As `ottla consume -o json` prints it and `ottla produce --format json` reads it."""
    commands: list[Copy]


def copies_of(record: AnyRecord, servers: str) -> RecordCopies:
    """The copies of a record of a cluster with these addresses."""
    line = JsonRecordFormatter()(record).decode().rstrip("\n")
    return RecordCopies(
        line,
        [
            _reads_ottla(record, servers),
            _reads_kcat(record, servers),
            *_writes(record, servers, line),
        ],
    )


def _reads_ottla(record: AnyRecord, servers: str) -> Copy:
    words = ["ottla", "consume", "-b", servers, record.topic, "-p", str(record.partition)]
    words += ["--offset", str(record.offset), "-c", "1", "-o", "json"]
    return Copy("ottla: read it", shlex.join(words))


def _reads_kcat(record: AnyRecord, servers: str) -> Copy:
    words = ["kcat", "-C", "-b", servers, "-t", record.topic, "-p", str(record.partition)]
    words += ["-o", str(record.offset), "-c", "1", "-J"]
    return Copy("kcat: read it", shlex.join(words))


def _writes(record: AnyRecord, servers: str, line: str) -> list[Copy]:
    found = []
    words = shlex.join(["ottla", "produce", "-b", servers, record.topic, "--format", "json"])
    commands: tuple[tuple[str, Callable[[], str]], ...] = (
        ("ottla: write it again", lambda: _ottla_produce(line, words)),
        ("kcat: write it again", lambda: _kcat_produce(record, servers)),
    )
    for label, make in commands:
        try:
            command = make()
        except ValueError as error:
            found.append(Copy(label, None, str(error)))
            continue
        is_long = len(command.encode()) > MAX_COMMAND_BYTES
        found.append(
            Copy(label, None, "it is too large for a command line: download it")
            if is_long
            else Copy(label, command)
        )
    return found


def _ottla_produce(line: str, words: str) -> str:
    return f"printf '%s\\n' {shlex.quote(_pasteable('record', line))} | {words}"


def _kcat_produce(record: AnyRecord, servers: str) -> str:
    """kcat takes keys and headers from its arguments, which are text, and the value from its input."""
    words = ["kcat", "-P", "-b", servers, "-t", record.topic, "-p", str(record.partition)]
    if record.key is not None:
        words += ["-k", _argument("key", record.key)]
    for name, data in record.headers:
        words += [
            "-H",
            f"{_pasteable('name of a header', name)}={_argument('header', data or b'')}",
        ]
    if record.value is None:
        return f"echo | {shlex.join([*words, '-Z'])}"
    if b"\x1e" in record.value or not record.value:
        raise ValueError("kcat has no way to send this value")
    # Without a delimiter that the value does not have, each of its lines would become a record.
    words += ["-D", _DELIMITER]
    return f"printf '%s' {b64encode(record.value).decode()} | base64 -d | {shlex.join(words)}"


def _argument(what: str, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"kcat cannot send this {what}: it is no UTF-8") from None
    return _pasteable(what, text)


def _pasteable(what: str, text: str) -> str:
    """The text: what is pasted into a terminal is typed, and there a control character is a command."""
    if not all(each.isprintable() for each in text):
        raise ValueError(f"the {what} has characters that a terminal takes for commands")
    return text
