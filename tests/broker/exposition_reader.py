"""Prometheus' text format 0.0.4, read strictly: what its documentation does not allow is an error."""

from __future__ import annotations

import re
from typing import NamedTuple

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"')
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
KINDS = {"counter", "gauge", "histogram"}
SUFFIXES = ("_bucket", "_sum", "_count")

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """A metric with its samples, by their names and labels."""

    kind: str
    samples: dict[tuple[str, Labels], float]


def read(text: str) -> dict[str, Family]:
    """The metrics by name; AssertionError where the format is violated."""
    assert text.endswith("\n"), "the last line must end"
    families: dict[str, Family] = {}
    helped: list[str] = []
    current = ""
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert NAME.fullmatch(current), line
            assert current not in helped, f"{current} is explained twice"
            helped.append(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current, f"{name} has no help before it"
            assert kind in KINDS, line
            assert name not in families, f"the samples of {name} do not stand together"
            families[name] = Family(kind, {})
        else:
            _read_sample(line, current, families[current])
    for name, family in families.items():
        _check(name, family)
    return families


def _read_sample(line: str, current: str, family: Family) -> None:
    match = SAMPLE.fullmatch(line)
    assert match is not None, f"no sample: {line!r}"
    name, inside, number = match.groups()
    allowed = [current + suffix for suffix in SUFFIXES] if family.kind == "histogram" else [current]
    assert name in allowed, f"{name} stands among the samples of {current}"
    labels: list[tuple[str, str]] = []
    position = 0
    while inside and position < len(inside):
        found = LABEL.match(inside, position)
        assert found is not None, f"no label at {inside[position:]!r}"
        labels.append((found[1], _unescape(found[2])))
        position = found.end()
        if position < len(inside):
            assert inside[position] == ",", line
            position += 1
    assert len({label for label, _ in labels}) == len(labels), f"a label is there twice: {line}"
    key = (name, tuple(labels))
    assert key not in family.samples, f"{line} is there twice"
    family.samples[key] = float(number)


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)


def _check(name: str, family: Family) -> None:
    assert family.samples, f"{name} has no sample"
    if family.kind == "counter":
        assert name.endswith("_total"), f"a counter is called {name}"
        assert min(family.samples.values()) >= 0
    if family.kind == "histogram":
        _check_histogram(name, family)


def _check_histogram(name: str, family: Family) -> None:
    """Buckets count up to the number of all, and the last one has no bound."""
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    for (sample, labels), value in family.samples.items():
        if sample == f"{name}_bucket":
            *others, (le, bound) = labels
            assert le == "le"
            buckets.setdefault(tuple(others), []).append((float(bound), value))
    for labels, found in buckets.items():
        assert found == sorted(found)
        assert found[-1][0] == float("inf")
        assert found[-1][1] == family.samples[f"{name}_count", labels]
        assert (f"{name}_sum", labels) in family.samples


def value(families: dict[str, Family], name: str, **labels: str) -> float:
    """The one sample of a metric that has these labels."""
    (found,) = (
        number
        for (sample, given), number in families[name].samples.items()
        if sample == name and labels.items() <= dict(given).items()
    )
    return found
