"""Records that somebody has written in order to harm those who look at them."""

from __future__ import annotations

import asyncio
import csv
import io
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from ottla.client.model import ConsumerRecord
from ottla.console.records import exports
from ottla.console.records.copies import copies_of
from ottla.console.records.filters import read_filter
from ottla.console.records.windows import AnyRecord
from ottla.records.record import TimestampType

MAX_SECONDS = 20


@contextmanager
def soon() -> Iterator[None]:
    """What takes for ever is an error."""

    def over(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"this took more than {MAX_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def record(
    value: bytes | None = b"1",
    key: bytes | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
) -> AnyRecord:
    return ConsumerRecord(
        topic="t",
        partition=0,
        offset=7,
        timestamp_ms=1,
        timestamp_type=TimestampType.CREATE_TIME,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=None,
        serialized_key_size=-1 if key is None else len(key),
        serialized_value_size=-1 if value is None else len(value),
    )


def passes(filter_text: str, value: str) -> bool:
    async def text(_: ConsumerRecord, is_key: bool) -> str | None:
        return None if is_key else value

    return asyncio.run(read_filter(filter_text).matches(record(), text))


@pytest.mark.parametrize("end", ["x", ".", "e", ""])
def test_a_long_number_is_compared_in_time_that_grows_with_its_length(end: str) -> None:
    with soon():
        assert passes("value >= 1", "9" * 300_000 + end) is (end in ("", "."))


@pytest.mark.parametrize("text", ["-5", "-5.5", "-.5", "-1e9", "5", "a", "a-1", ""])
def test_cells_that_are_no_formulas_are_as_they_are(text: str) -> None:
    assert cell_of(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "=1",
        "+1",
        "@a",
        "-a",
        "-1+cmd|' /C calc'!A0",
        "-1e5+1",
        "-",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1",
    ],
)
def test_cells_that_are_formulas_become_text(text: str) -> None:
    assert cell_of(text) == f"'{text}"


def cell_of(text: str) -> str:
    line = exports._line([text]).decode()
    ((cell,),) = csv.reader(io.StringIO(line, newline=""))
    return cell


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        (b"a\x03\nrm -rf ~\n", ()),
        (b"\x1b[201~", ()),
        (b"a", (("\x15x", b"1"),)),
        (b"a", (("x", b"\x7f"),)),
        ("\u202eevil".encode(), ()),
    ],
)
def test_what_a_terminal_takes_for_commands_is_in_no_command_to_paste(
    key: bytes, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    found = copies_of(record(b"1", key, headers), "127.0.0.1:9092")
    texts = [each.text for each in found.commands if each.text is not None]
    assert texts
    assert all(each.isprintable() for each in texts)
    (kcat,) = (each for each in found.commands if each.label == "kcat: write it again")
    assert kcat.problem is not None
