"""The metrics page of a broker, read: Prometheus' text format, as Ottla writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? ([+-]?(?:Inf|NaN|\d[\d.e+-]*))$")
_HEADING: Final = re.compile(r"# (HELP|TYPE) (\S+) (.*)$")
_SUFFIX: Final = re.compile(r"_(?:bucket|sum|count)$")


@dataclass(frozen=True)
class MetricSample:
    """One line of the page."""

    name: str
    labels: str
    """As the page has them, without their braces."""
    value: str
    kind: str
    documentation: str


def metric_samples(text: str) -> list[MetricSample]:
    """The samples, but for the buckets of histograms."""
    texts: dict[str, str] = {}
    kinds: dict[str, str] = {}
    found = []
    for line in text.split("\n"):
        heading = _HEADING.match(line)
        if heading is not None:
            what, name, rest = heading.groups()
            (texts if what == "HELP" else kinds)[name] = rest
            continue
        sample = _SAMPLE.match(line)
        if sample is None or sample[1].endswith("_bucket"):
            continue
        name = sample[1]
        family = name if name in kinds else _SUFFIX.sub("", name)
        documentation = texts.get(family, "")
        found.append(
            MetricSample(
                name, sample[2] or "", sample[3], kinds.get(family, "untyped"), documentation
            )
        )
    return found
