"""Writes the tables of docs/guides/spark-source.md: `python -m ottla.spark.document PAGE`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from ottla.spark.options import (
    OPTIONS,
    READS,
    REFUSED_READING,
    REFUSED_WRITING,
    WRITES,
    SparkOption,
    Use,
)

MARK = "<!-- What follows is written by `python -m ottla.spark.document docs/guides/spark-source.md`. -->\n"
"""The line between the text and the generated tables."""

_HEAD = "| option | queries | default | what it does |\n|---|---|---|---|\n"
_KINDS = {Use.BATCH_READ: "batch", Use.STREAM_READ: "streaming"}
_KINDS |= {Use.BATCH_WRITE: "batch", Use.STREAM_WRITE: "streaming"}


def page(text: str) -> str:
    """The page with new tables."""
    prose, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError("the page lacks the line above the tables")
    return f"{prose}{MARK}\n{tables()}"


def tables() -> str:
    """The options of the source and of the sink, and the options of Kafka's clients that cannot be set."""
    parts = [
        f"## Options of the {side}\n\n{_HEAD}{''.join(_rows(uses))}\n{_refused(refused)}"
        for side, uses, refused in (
            ("source", READS, REFUSED_READING),
            ("sink", WRITES, REFUSED_WRITING),
        )
    ]
    return "\n".join(parts)


def _rows(uses: tuple[Use, ...]) -> list[str]:
    return [_row(option, uses) for option in OPTIONS if set(option.uses) & set(uses)]


def _row(option: SparkOption, uses: tuple[Use, ...]) -> str:
    kinds = ", ".join(_KINDS[use] for use in uses if use in option.uses)
    name = f"`{option.name}`" if option.of_spark else f"`{option.name}` (ours)"
    return f"| {name} | {kinds} | {_default(option)} | {option.doc} |\n"


def _default(option: SparkOption) -> str:
    if option.default is None:
        return ""
    if isinstance(option.default, bool):
        return f"`{str(option.default).lower()}`"
    return f"`{option.default}`"


def _refused(refused: Mapping[str, str]) -> str:
    lines = [f"- `kafka.{name}`: {hint}\n" for name, hint in refused.items()]
    return f"Options of Kafka's clients that cannot be set:\n\n{''.join(lines)}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
