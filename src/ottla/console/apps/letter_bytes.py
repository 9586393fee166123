"""Keys, values and headers of letters as text: never interpreted, and of a bounded size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ottla.console.json_layout import json_with_line_breaks

PREVIEW_BYTES: Final = 160
MAX_BYTES: Final = 256 << 10
_HEX_BYTES: Final = 4 << 10
# Line breaks are text; other control characters say that bytes are something else.
_TEXT_CONTROLS: Final = frozenset("\t\n\r")


@dataclass(frozen=True)
class ShownBytes:
    """Bytes as they can be read."""

    form: Literal["null", "json", "text", "hex"]
    text: str
    """JSON with line breaks; bytes that are no text as pairs of hexadecimal digits."""
    size_bytes: int
    is_cut: bool


def shown(data: bytes | None, max_bytes: int = MAX_BYTES) -> ShownBytes:
    """The bytes as JSON, as text or in hexadecimal digits."""
    if data is None:
        return ShownBytes("null", "", 0, is_cut=False)
    is_cut = len(data) > max_bytes
    text = _text_of(data[:max_bytes], is_cut=is_cut)
    if text is None:
        some = data[: min(max_bytes, _HEX_BYTES)]
        return ShownBytes("hex", some.hex(" "), len(data), is_cut=len(some) < len(data))
    if not is_cut and text[:1] in ("{", "["):
        pretty = json_with_line_breaks(text)
        if pretty is not None:
            return ShownBytes("json", pretty, len(data), is_cut=False)
    return ShownBytes("text", text, len(data), is_cut=is_cut)


def preview(data: bytes | None) -> ShownBytes:
    """The start of it, for a line of a list."""
    if data is None:
        return ShownBytes("null", "", 0, is_cut=False)
    is_cut = len(data) > PREVIEW_BYTES
    text = _text_of(data[:PREVIEW_BYTES], is_cut=is_cut)
    if text is None:
        return ShownBytes("hex", data[:40].hex(" "), len(data), is_cut=len(data) > 40)
    return ShownBytes("text", text, len(data), is_cut=is_cut)


def _text_of(data: bytes, *, is_cut: bool) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        # The cut may have gone through a character.
        if not (is_cut and error.start >= len(data) - 3):
            return None
        text = data[: error.start].decode()
    if any(each < " " and each not in _TEXT_CONTROLS for each in text):
        return None
    return text
