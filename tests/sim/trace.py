"""What happened in a run, in order: to be read by people, and to be compared with another run."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any, cast

from ottla.wire.declare import fields_of

SHOWN_BYTES = 24


class Trace:
    """A list of events; they become text only when somebody looks."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._events: list[tuple[float, str, tuple[Any, ...]]] = []

    def note(self, text: str, *values: Any) -> None:
        """Adds an event; each {} in the text stands for a value, which must not change any more."""
        self._events.append((self._now(), text, values))

    def lines(self) -> Iterator[str]:
        for at, text, values in self._events:
            yield f"{at:10.4f} {text.format(*map(described, values))}"

    def digest(self) -> str:
        """The same for two runs in which the same happened."""
        digest = hashlib.sha256()
        for line in self.lines():
            digest.update(line.encode())
        return digest.hexdigest()


def described(value: Any) -> str:
    """A short form of a value; of a message, the fields that are not what they are by default."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        if len(data) <= SHOWN_BYTES:
            return repr(data)
        return f"<{len(data)} bytes, crc {zlib.crc32(data):08x}>"
    if isinstance(value, list):
        return f"[{', '.join(_nested(one) for one in value)}]"
    if hasattr(type(value), "__dataclass_fields__") and hasattr(value, "__slots__"):
        shown = []
        for field in fields_of(cast(Any, type(value))):
            content = getattr(value, field.name)
            if field.default is None or content != field.default():
                shown.append(f"{field.name}={_nested(content)}")
        return f"{type(value).__name__}({', '.join(shown)})"
    return repr(value)


def _nested(value: Any) -> str:
    return repr(value) if isinstance(value, str) else described(value)
