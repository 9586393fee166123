"""Values to serialize, and the table of the bytes that Kafka's Java client makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

VECTORS = Path(__file__).with_name("vectors.txt")
OPTIONS = Path(__file__).with_name("options.txt")

_TEXTS = ["", "tea", "käse", "茶", "😀", "a\x00b", "\ufeffmark", "x" * 40]
_NUMBERS = {"short": 16, "int": 32, "long": 64}
_REALS = ["0.0", "-0.0", "1.0", "-1.5", "0.1", "3.4028235E38", "1.4E-45", "Infinity", "-Infinity"]
_UUIDS = [
    "00000000-0000-0000-0000-000000000000",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
]


class Case(NamedTuple):
    """What is serialized how: `list:` before the name for a list of items."""

    name: str
    encoding: str
    items: tuple[str | None, ...]

    @property
    def line(self) -> str:
        """The case as the Java program reads it."""
        words = ["null" if item is None else item.encode().hex() for item in self.items]
        return " ".join((self.name, self.encoding, *words))

    @property
    def value(self) -> Any:
        """The case as a Python value."""
        _, is_list, inner = self.name.rpartition("list:")
        values = [None if item is None else value(inner, item) for item in self.items]
        return values if is_list else values[0]


def value(name: str, text: str) -> Any:
    """The Python value of a text, for a serializer of this name."""
    match name:
        case "short" | "int" | "long":
            return int(text)
        case "float" | "double":
            return float(text)
        case "boolean":
            return text == "true"
        case "uuid":
            return UUID(text)
        case "bytes":
            return text.encode()
        case _:
            return text


def cases() -> Iterator[Case]:
    """All cases."""
    texts: dict[str, list[str]] = {
        "bytes": _TEXTS,
        "str": _TEXTS,
        "float": _REALS,
        "double": [*_REALS, "1.7976931348623157E308", "4.9E-324"],
        "boolean": ["true", "false"],
        "uuid": _UUIDS,
    }
    for name, bits in _NUMBERS.items():
        numbers = (0, 1, -1, 258, -258, (1 << (bits - 1)) - 1, -(1 << (bits - 1)))
        texts[name] = [str(number) for number in numbers]
    for name, items in texts.items():
        yield Case(name, "-", (None,))
        for item in items:
            yield Case(name, "-", (item,))
        for some in (
            (),
            (None,),
            tuple(items),
            (None, *items[:2], None),
            (items[0], None, items[1]),
        ):
            yield Case(f"list:{name}", "-", some)
    yield Case("void", "-", (None,))
    for encoding in ("UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32", "UTF-8"):
        for text in _TEXTS:
            yield Case("str", encoding, (text,))
        yield Case("uuid", encoding, (_UUIDS[1],))
    for encoding in ("ISO-8859-1", "windows-1252", "US-ASCII"):
        yield Case("str", encoding, ("tea",))
    yield Case("str", "ISO-8859-1", ("käse",))


def vectors() -> dict[str, str]:
    """The bytes of each case, in hexadecimal or `null`, as Kafka's client wrote them."""
    pairs = [line.rpartition(" = ") for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    return {line: data for line, _, data in pairs}


class KafkaOption(NamedTuple):
    """An option of a client of Kafka 4.4."""

    client: str
    name: str
    type: str
    default: str
    importance: str


def kafka_options() -> list[KafkaOption]:
    """All options of Kafka's three clients."""
    lines = OPTIONS.read_text(encoding="utf-8").splitlines()
    return [KafkaOption(*line.split("|")) for line in lines]
