"""`ottla records delete`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError, attempt, print_errors
from ottla.cli.terminal.output import Output
from ottla.client.admin_model.offsets import OffsetSpec
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_ALL_THERE_ARE: Final = -1
_JSON_VERSION: Final = 1


def delete(arguments: Arguments) -> int:
    """Delete records before an offset."""
    given = [before_of(text) for text in arguments.before]
    if arguments.offset_json_file is not None:
        given += read_json(_text_of(arguments.offset_json_file))
    if not given:
        raise UsageError("no partition is named", "write TOPIC:PARTITION:OFFSET")
    wanted = dict(given)
    if len(wanted) < len(given):
        raise UsageError("a partition is given twice")
    with admin_of(arguments) as admin:
        if arguments.dry_run:
            Output("table").lines(_would_delete(admin, wanted))
            return 0
        starts, errors = attempt(wanted, lambda: admin.delete_records(wanted))
    Output("table").lines(
        f"{partition} starts at offset {start}" for partition, start in starts.items()
    )
    return print_errors(errors.values())


def _would_delete(admin: Admin, wanted: Mapping[TopicPartition, int]) -> Iterator[str]:
    starts = admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST))
    for partition, before in wanted.items():
        start, end = starts[partition].offset, ends[partition].offset
        if before > end:
            raise CommandError(f"{partition} ends at {end}, before offset {before}")
        first = max(start, end if before == _ALL_THERE_ARE else before)
        yield f"{partition} would start at offset {first}, not {start}"


def before_of(text: str) -> tuple[TopicPartition, int]:
    """Parse TOPIC:PARTITION:OFFSET."""
    topic, *numbers = text.split(":")
    try:
        partition, offset = (int(number) for number in numbers)
    except ValueError:
        partition = offset = _ALL_THERE_ARE - 1
    return _checked(topic, partition, offset, text)


def _checked(topic: Any, partition: Any, offset: Any, what: str) -> tuple[TopicPartition, int]:
    if (
        not (isinstance(topic, str) and type(partition) is int and type(offset) is int)
        or not topic
        or partition < 0
        or offset < _ALL_THERE_ARE
    ):
        raise UsageError(
            f"{what} is not a topic, a partition and an offset", "write TOPIC:PARTITION:OFFSET"
        )
    return TopicPartition(topic, partition), offset


def _text_of(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")


def read_json(text: str) -> list[tuple[TopicPartition, int]]:
    """The partitions and offsets in Kafka's JSON."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the file has no valid JSON ({error})") from None
    if not isinstance(found, dict) or not isinstance(found.get("partitions"), list):
        raise UsageError('the JSON has no list "partitions"', "--help shows how it looks")
    if found.get("version", _JSON_VERSION) != _JSON_VERSION:
        raise UsageError(f"version {found['version']} of the JSON is not supported")
    return [*_entries(found["partitions"])]


def _entries(partitions: Iterable[Any]) -> Iterator[tuple[TopicPartition, int]]:
    for each in partitions:
        values = each if isinstance(each, dict) else {}
        yield _checked(
            values.get("topic"), values.get("partition"), values.get("offset"), json.dumps(each)
        )
