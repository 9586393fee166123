"""Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.histogram import Histogram

_PIECE_LINES: Final = 200
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    """A metric; `kind` is counter, gauge or histogram."""

    name: str
    kind: str
    text: str


Labels = Mapping[str, str]
Value = float | Histogram


class Page:
    """The page of one scrape; samples are grouped by metric, in the order in which metrics were first added."""

    def __init__(self) -> None:
        self._samples: dict[Metric, list[tuple[Labels, Value]]] = {}

    def add(self, metric: Metric, value: Value, **labels: str) -> None:
        """One sample."""
        self._samples.setdefault(metric, []).append((labels, value))

    def samples(self) -> Iterator[tuple[Metric, Labels, Value]]:
        """All samples, those of a metric together."""
        for metric, samples in self._samples.items():
            for labels, value in samples:
                yield metric, labels, value

    def render(self) -> bytes:
        """The text."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The text in pieces, none of which takes long; a sample is never in two of them."""
        lines: list[str] = []
        for metric, samples in self._samples.items():
            lines.append(f"# HELP {metric.name} {_escape_text(metric.text)}\n")
            lines.append(f"# TYPE {metric.name} {metric.kind}\n")
            for labels, value in samples:
                if isinstance(value, Histogram):
                    lines.extend(_histogram_lines(metric.name, labels, value))
                else:
                    lines.append(f"{metric.name}{_braces(labels.items())} {_number(value)}\n")
                if len(lines) >= _PIECE_LINES:
                    yield "".join(lines).encode("utf-8")
                    lines.clear()
        yield "".join(lines).encode("utf-8")


def _histogram_lines(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    below = 0
    bounds = (*map(_number, histogram.bounds), "+Inf")
    for bound, count in zip(bounds, histogram.counts, strict=True):
        below += count
        yield f"{name}_bucket{_braces([*labels.items(), ('le', bound)])} {below}\n"
    yield f"{name}_sum{_braces(labels.items())} {_number(histogram.total)}\n"
    yield f"{name}_count{_braces(labels.items())} {below}\n"


def _braces(labels: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escape_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(text: str) -> str:
    return _escape_text(text).replace('"', '\\"')
