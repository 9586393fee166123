"""Errors of the user's own code: their text, and the line that raised them.

Errors of Spark's Python processes arrive as text, in which Spark wraps its own errors around the user's.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

_TRACEBACK: Final = re.compile(
    r"Traceback \(most recent call last\):\n((?:[ \t]+\S.*\n)+)(?:\w+\.)*(\w+)(?:: ?(.*))?$",
    re.MULTILINE,
)
_FRAME: Final = re.compile(r'^[ \t]+File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
OF_SPARK: Final = re.compile(r"(Spark|Py4J|Stream|Query|Analysis|Python)\w*(Exception|Error)")
# Files of Spark, of Ottla, of Python, or of installed packages.
_NOT_OWN: Final = re.compile(
    r"^<|[/\\](?:py4j|pyspark|site-packages|dist-packages)[/\\]|pyspark\.zip|[/\\]python3\.\d+[/\\]|"
    r"[/\\]ottla[/\\](?:spark|cli|client|records|app)[/\\]"
)
# An error of ours whose text already explains another error.
_JUDGED: Final = "PipelineError"

Frame = tuple[str, int, str]
"""A file, a line and the name of a function."""


def own_place(error: BaseException) -> str | None:
    """The line of the user's code that an error came from; None if no frame is the user's."""
    frames = traceback.extract_tb(error.__traceback__)
    return _place((frame.filename, frame.lineno or 0, frame.name) for frame in frames)


def own_error(text: str) -> str | None:
    """The user's error in Spark's text, with its line; None if there is none."""
    found = None
    for frames, kind, words in _TRACEBACK.findall(text):
        if kind == _JUDGED:
            found = words
        elif not OF_SPARK.fullmatch(kind):
            place = _place((file, int(line), name) for file, line, name in _FRAME.findall(frames))
            found = one_line(kind, words, place)
    return found


def one_line(kind: str, words: str, place: str | None) -> str:
    """An error in one line."""
    words = " ".join(words.split())
    line = f"{kind}: {words}" if words else kind
    return f"{line} ({place})" if place is not None else line


def _place(frames: Iterable[Frame]) -> str | None:
    own = [frame for frame in frames if not _NOT_OWN.search(frame[0])]
    if not own:
        return None
    file, line, name = own[-1]
    return f"{PurePath(file).name}, line {line}, in {name}"
