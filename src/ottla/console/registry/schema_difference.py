"""The difference of two texts, line by line."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, Literal

MAX_LINES: Final = 4_000


@dataclass(frozen=True)
class DifferenceLine:
    """A line of one text or of both; its number in each, counted from 1."""

    kind: Literal["same", "removed", "added"]
    text: str
    old_line: int | None
    new_line: int | None


@dataclass(frozen=True)
class SchemaDifference:
    """All lines of both texts in an order that shows the change."""

    lines: list[DifferenceLine]
    added_count: int
    removed_count: int
    is_cut: bool
    """Whether the texts are longer than what was compared."""


def difference_of(old: str, new: str) -> SchemaDifference:
    """What was removed and what was added."""
    before, after = old.splitlines(), new.splitlines()
    is_cut = max(len(before), len(after)) > MAX_LINES
    before, after = before[:MAX_LINES], after[:MAX_LINES]
    lines: list[DifferenceLine] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=True).get_opcodes():
        if tag == "equal":
            lines += [
                DifferenceLine("same", before[i1 + n], i1 + n + 1, j1 + n + 1)
                for n in range(i2 - i1)
            ]
            continue
        lines += [DifferenceLine("removed", before[i], i + 1, None) for i in range(i1, i2)]
        lines += [DifferenceLine("added", after[j], None, j + 1) for j in range(j1, j2)]
    return SchemaDifference(
        lines=lines,
        added_count=sum(each.kind == "added" for each in lines),
        removed_count=sum(each.kind == "removed" for each in lines),
        is_cut=is_cut,
    )
