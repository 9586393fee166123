"""Where our broker answers otherwise than Apache Kafka on purpose, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Difference(NamedTuple):
    """What we answer to some steps of a script, by their numbers from 1."""

    why: str
    answers: Mapping[int, str]


DIFFERENCES: dict[str, Difference] = {}


def expected(name: str, recorded: list[str]) -> list[str]:
    """What our broker has to answer, given what Kafka answered."""
    if name not in DIFFERENCES:
        return recorded
    lines = list(recorded)
    for number, answer in DIFFERENCES[name].answers.items():
        step = lines[number - 1].partition(": (")[0]
        assert lines[number - 1] != f"{step}: {answer}", "it is no difference"
        lines[number - 1] = f"{step}: {answer}"
    return lines
