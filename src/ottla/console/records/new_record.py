"""A record that a user has written: its bytes, and what producing it leads to. Made without IO."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ottla.console.http.errors import bad_request
from ottla.console.records.json_values import check_json
from ottla.records.client_kernel import partition_of_key

MAX_HEADERS: Final = 1_000
WrittenFormat = Literal["text", "json", "hex", "base64"]
"""`text` is UTF-8, `json` is checked and sent as it was written."""


@dataclass(frozen=True)
class WrittenData:
    """A key, a value or a header's value as it was written; where there is none it is null."""

    text: str
    format: WrittenFormat = "text"


@dataclass(frozen=True)
class WrittenHeader:
    """A header; names may occur more than once."""

    name: str
    value: WrittenData | None = None


@dataclass(frozen=True)
class NewRecord:
    """The bytes to send."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class ProducePlan:
    """What is sent and where to; sizes of null are None."""

    topic: str
    partition: int | None
    """None if the producer chooses one."""
    key_size_bytes: int | None
    value_size_bytes: int | None
    header_count: int
    steps: list[str]


def new_record(
    key: WrittenData | None, value: WrittenData | None, headers: Sequence[WrittenHeader]
) -> NewRecord:
    """The record that was written; a bad request says what is wrong with it."""
    if len(headers) > MAX_HEADERS:
        raise bad_request(f"give {MAX_HEADERS:,} headers at most")
    return NewRecord(
        _bytes_of("the key", key),
        _bytes_of("the value", value),
        [(_header_name(each), _bytes_of("a header's value", each.value)) for each in headers],
    )


def _header_name(header: WrittenHeader) -> str:
    try:
        header.name.encode()
    except UnicodeEncodeError as error:
        raise bad_request(f"a header's name is not UTF-8: {error}") from error
    return header.name


def _bytes_of(what: str, written: WrittenData | None) -> bytes | None:
    if written is None:
        return None
    try:
        match written.format:
            case "hex":
                return bytes.fromhex(written.text)
            case "base64":
                return b64decode("".join(written.text.split()), validate=True)
            case "json":
                check_json(written.text)
        return written.text.encode()
    except (ValueError, RecursionError) as error:
        raise bad_request(f"{what} is not {_NAMES[written.format]}: {error}") from error


_NAMES: Final = {"text": "UTF-8", "json": "JSON", "hex": "hex", "base64": "base64"}


def produce_plan(
    record: NewRecord, topic: str, partition: int | None, partition_count: int, policy: str | None
) -> ProducePlan:
    """What producing a record leads to; a bad request if the cluster would refuse it."""
    is_compacted = policy is not None and "compact" in policy
    if is_compacted and record.key is None:
        raise bad_request(
            f"{topic} is compacted: the cluster refuses records without a key", "write a key"
        )
    steps = []
    if partition is not None:
        if not 0 <= partition < partition_count:
            raise bad_request(
                f"{topic} has no partition {partition}", f"it has {partition_count}, from 0 on"
            )
        steps.append(f"The record goes to partition {partition}.")
        if record.key is not None and partition != partition_of_key(record.key, partition_count):
            steps.append(
                "Producers choose another partition for this key: who reads by key may not expect it."
            )
    elif record.key is not None:
        partition = partition_of_key(record.key, partition_count)
        steps.append(f"The record goes to partition {partition}, which its key chooses.")
    else:
        steps.append("The record goes to any partition, because it has no key.")
    if record.value is None:
        steps.append(
            "It is a tombstone: compaction takes it as the deletion of the key."
            if is_compacted
            else "Its value is null."
        )
    steps.append("Every consumer of the topic will see it; it cannot be taken back.")
    return ProducePlan(
        topic=topic,
        partition=partition,
        key_size_bytes=None if record.key is None else len(record.key),
        value_size_bytes=None if record.value is None else len(record.value),
        header_count=len(record.headers),
        steps=steps,
    )
