"""The messages that every client sends and gets back: one table for all of them."""

from __future__ import annotations

import random
from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

# As much as the smallest default of the clients and the broker lets through, and a bit less than 1 MiB.
MEGABYTE = 1_000_000

_noise = random.Random(1).randbytes(MEGABYTE)


class Message(NamedTuple):
    """What a client sends."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Received(NamedTuple):
    """What a client gets."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def content(self) -> Message:
        """What the sender chose, apart from the time."""
        return Message(self.value, self.key, self.headers)


SHAPES = {
    "value": Message(b"value"),
    "key-and-value": Message(b"value", b"key"),
    "null-value": Message(None, b"key"),
    "null-key-and-value": Message(None),
    "empty-value": Message(b"", b"key"),
    "empty-key": Message(b"value", b""),
    "empty-key-and-value": Message(b"", b""),
    "every-byte": Message(bytes(range(256)), bytes(reversed(range(256)))),
    "unicode": Message("Ottla, žluťoučký kůň 🐎".encode(), "🔑".encode()),
    "header": Message(b"value", b"key", (("trace", b"1"),)),
    "null-header": Message(b"value", b"key", (("trace", None),)),
    "empty-header": Message(b"value", b"key", (("trace", b""),)),
    "header-without-name": Message(b"value", b"key", (("", b"1"),)),
    "repeated-headers": Message(
        b"value", None, (("a", b"2"), ("b", b"x"), ("a", b"1"), ("a", b"2"))
    ),
    "unicode-header": Message(None, b"key", (("čas ⏱", "půl".encode()),)),
    "every-byte-in-header": Message(b"", None, (("bytes", bytes(range(256))),)),
    "large-header": Message(b"value", None, (("large", _noise[:20_000]),)),
    "large-key": Message(b"value", _noise[:50_000]),
    "megabyte-of-zeros": Message(bytes(MEGABYTE), b"key"),
    "megabyte-of-noise": Message(_noise, b"key"),
}


def numbered(count: int, *, start: int = 0, timestamp_ms: int | None = None) -> list[Message]:
    """Messages that tell which one they are, a second apart if they have timestamps."""
    return [
        Message(
            b"value %d" % number,
            b"key %d" % number,
            (("kind", b"numbered"),),
            None if timestamp_ms is None else timestamp_ms + 1000 * (number - start),
        )
        for number in range(start, start + count)
    ]


def noise(size_bytes: int) -> bytes:
    """Bytes that no codec makes much smaller."""
    return random.Random(size_bytes).randbytes(size_bytes)
