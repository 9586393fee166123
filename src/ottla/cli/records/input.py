"""Reads records to send from stdin or files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ottla.cli.commands.syntax import Arguments
from ottla.cli.errors import CommandError, UsageError
from ottla.cli.terminal.output import say
from ottla.client.model import Headers
from ottla.inspection import json_lines as json_records
from ottla.inspection.json_lines import RecordToSend

READ_BYTES: Final = 1 << 16
# The largest record: input without delimiters must not fill the memory.
RECORD_LIMIT_BYTES: Final = 1 << 28
STDIN: Final = "-"


class Lines(NamedTuple):
    """Consecutive lines of a source."""

    source: str
    first_number: int
    lines: list[bytes]

    def without_first(self, count: int) -> Lines:
        """The lines without the first `count`."""
        return Lines(self.source, self.first_number + count, self.lines[count:])


def sources_of(arguments: Arguments) -> Iterator[Lines]:
    """The lines of stdin and the files, in pieces as they arrive."""
    by_line = arguments.lines or not arguments.files
    for name in arguments.files or [STDIN]:
        if not by_line and name != STDIN:
            _check_size(name, Path(name).stat().st_size)
            yield Lines(name, 1, [Path(name).read_bytes()])
        elif name == STDIN:
            yield from _lines_of(
                sys.stdin.buffer, "stdin", arguments.delimiter, prompt_of(sys.stdin)
            )
        else:
            with Path(name).open("rb") as stream:
                yield from _lines_of(stream, name, arguments.delimiter, _no_prompt)


def _no_prompt() -> None:
    """No prompt: the input is not typed."""


def prompt_of(stream: object) -> Callable[[], None]:
    """The prompt for input that is typed at a terminal."""
    if not sys.stdin.isatty() or stream is not sys.stdin:
        return _no_prompt

    def prompt() -> None:
        sys.stderr.write(">")
        sys.stderr.flush()

    return prompt


def _lines_of(
    stream: BinaryIO, source: str, delimiter: bytes | None, prompt: Callable[[], None]
) -> Iterator[Lines]:
    r"""Lines with the given delimiter or, as with Kafka's console producer, \n or \r\n."""
    if delimiter is not None:
        yield from _split(stream, source, delimiter, prompt)
        return
    for some in _split(stream, source, b"\n", prompt):
        yield some._replace(lines=[line.removesuffix(b"\r") for line in some.lines])


def _split(
    stream: BinaryIO, source: str, delimiter: bytes, prompt: Callable[[], None]
) -> Iterator[Lines]:
    """Lines as soon as they arrive: slow input is not buffered."""
    rest = bytearray()
    number = 1
    read = getattr(stream, "read1", stream.read)
    while True:
        prompt()
        data = read(READ_BYTES)
        if not data:
            break
        # A delimiter of several bytes may arrive in two pieces.
        begin = max(0, len(rest) - len(delimiter) + 1)
        rest += data
        if rest.find(delimiter, begin) < 0:
            _check_size(source, len(rest))
            continue
        *lines, last = bytes(rest).split(delimiter)
        rest = bytearray(last)
        yield Lines(source, number, lines)
        number += len(lines)
    if prompt is not _no_prompt:
        say("")  # end the line of the prompt
    if rest:
        yield Lines(source, number, [bytes(rest)])


def _check_size(source: str, size_bytes: int) -> None:
    if size_bytes > RECORD_LIMIT_BYTES:
        raise CommandError(
            f"{source}: a record has more than {RECORD_LIMIT_BYTES} bytes",
            "are there no delimiters in it?",
        )


# Parsing of lines


def quoted(data: bytes) -> str:
    """Bytes in a message."""
    return repr(data.decode(errors="backslashreplace"))


def check_input(arguments: Arguments) -> None:
    """Refuse options that would have no effect."""
    separators = (arguments.key_separator, arguments.headers_separator, arguments.null_marker)
    if arguments.format == "json" and any(each is not None for each in separators):
        raise UsageError(
            "lines of JSON name key, value and headers themselves",
            "leave out --key-separator, --headers-separator, --null-marker and -Z",
        )
    if arguments.key is not None and arguments.key_separator is not None:
        raise UsageError("--key-separator gives each record its own key", "leave out --key")
    if arguments.lines and not arguments.files:
        raise UsageError("--lines is for files", "leave it out: stdin is read by lines")


class LineReader:
    """Makes records from lines; ValueError says what is wrong with a line."""

    def __init__(self, arguments: Arguments) -> None:
        self._key_separator: bytes | None = arguments.key_separator
        self._headers_separator: bytes | None = arguments.headers_separator
        self._null: bytes | None = arguments.null_marker
        self._is_json = arguments.format == "json"
        self._key: bytes | None = arguments.key
        self._partition: int | None = arguments.partition
        self.headers: Headers = tuple(
            (_header_name(os.fsencode(name)), os.fsencode(value))
            for name, value in arguments.headers
        )

    @property
    def is_uniform(self) -> bool:
        """Whether records differ only in key and value."""
        return not self._is_json and self._headers_separator is None

    @property
    def partition(self) -> int | None:
        """The partition of all records; None if the partitioner decides."""
        return None if self._partition == -1 else self._partition

    def columns(self, lines: list[bytes]) -> tuple[list[bytes | None], list[bytes | None] | None]:
        """The values and keys of lines that differ only in these."""
        if self._key_separator is None:
            keys: list[bytes | None] | None = None
            if self._key is not None:
                keys = [self._key] * len(lines)
            if self._null is None:
                return list(lines), keys
            return [self._or_none(line) for line in lines], keys
        parted = [self._split_key(line) for line in lines]
        return [value for _, value in parted], [key for key, _ in parted]

    def record(self, line: bytes) -> RecordToSend:
        """The record of a line."""
        if self._is_json:
            found = json_records.parse(line)
            return found._replace(
                key=self._key if found.key is None else found.key,
                headers=self.headers + found.headers,
                partition=found.partition if self._partition is None else self.partition,
            )
        headers = self.headers
        if self._headers_separator is not None:
            text, found_one, line = line.partition(self._headers_separator)
            if not found_one:
                raise ValueError(
                    f"there is no headers separator {quoted(self._headers_separator)} in it"
                )
            headers += self._headers_of(text)
        key, value = self._split_key(line)
        return RecordToSend(key, value, headers, self.partition, None)

    def _split_key(self, line: bytes) -> tuple[bytes | None, bytes | None]:
        if self._key_separator is None:
            return self._key, self._or_none(line)
        key, found, value = line.partition(self._key_separator)
        if not found:
            raise ValueError(f"there is no key separator {quoted(self._key_separator)} in it")
        return self._or_none(key), self._or_none(value)

    def _or_none(self, data: bytes) -> bytes | None:
        return None if data == self._null else data

    def _headers_of(self, text: bytes) -> Headers:
        if not text or text == self._null:
            return ()
        found = []
        for part in text.split(b","):
            name, colon, value = part.partition(b":")
            if not colon:
                raise ValueError(f"{quoted(part)} is not a header: write NAME:VALUE,NAME:VALUE")
            found.append((_header_name(name), self._or_none(value)))
        return tuple(found)


def _header_name(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the name of a header is not UTF-8: {quoted(name)}") from None
