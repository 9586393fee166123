"""Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, isnan
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

    def __init__(self, **common: str) -> None:
        """`common` are labels of all samples that have no others of these names, and were not rendered before."""
        self._common = common
        self._samples: dict[Metric, list[tuple[Labels, Value]]] = {}
        self._rendered: dict[Metric, list[tuple[str, float]]] = {}

    def add(self, metric: Metric, value: Value, **labels: str) -> None:
        """One sample."""
        self._samples.setdefault(metric, []).append(({**self._common, **labels}, value))

    def add_rendered(self, metric: Metric, labels: str, value: float) -> None:
        """One sample whose labels were rendered before; all samples of its metric have to be such."""
        self._rendered.setdefault(metric, []).append((labels, value))

    def samples(self) -> Iterator[tuple[Metric, Labels, Value]]:
        """All samples with labels that are not rendered, those of a metric together."""
        for metric, samples in self._samples.items():
            for labels, value in samples:
                yield metric, labels, value

    def render(self) -> bytes:
        """The text."""
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """The text in pieces, none of which takes long; a sample is never in two of them."""
        lines: list[str] = []
        for line in self._lines():
            lines.append(line)
            if len(lines) >= _PIECE_LINES:
                yield "".join(lines).encode("utf-8")
                lines.clear()
        yield "".join(lines).encode("utf-8")

    def _lines(self) -> Iterator[str]:
        """Each sample is one line, but for a histogram: all of its lines are together."""
        for metric, samples in self._samples.items():
            yield from _heading(metric)
            for labels, value in samples:
                if isinstance(value, Histogram):
                    yield "".join(_histogram_lines(metric.name, labels, value))
                else:
                    yield f"{metric.name}{rendered_labels(labels.items())} {_number(value)}\n"
        for metric, rendered in self._rendered.items():
            yield from _heading(metric)
            for text, value in rendered:
                yield f"{metric.name}{text} {_number(value)}\n"


def merged_pages(pages: Iterable[bytes]) -> Iterator[bytes]:
    """The text of several pages as that of one, in which the samples of a metric are together."""
    families: dict[bytes, list[bytes]] = {}
    for page in pages:
        # Neither labels nor texts have line ends of their own.
        for family in (b"\n" + page).split(b"\n# HELP ")[1:]:
            name = family.partition(b" ")[0]
            known = families.get(name)
            if known is None:
                families[name] = [b"# HELP " + family.rstrip(b"\n") + b"\n"]
            else:
                _, _, samples = family.split(b"\n", 2)
                known.append(samples.rstrip(b"\n") + b"\n")
    for parts in families.values():
        yield b"".join(parts)


def _heading(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escape_text(metric.text)}\n"
    yield f"# TYPE {metric.name} {metric.kind}\n"


def _histogram_lines(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    below = 0
    bounds = (*map(_number, histogram.bounds), "+Inf")
    for bound, count in zip(bounds, histogram.counts, strict=True):
        below += count
        yield f"{name}_bucket{rendered_labels([*labels.items(), ('le', bound)])} {below}\n"
    yield f"{name}_sum{rendered_labels(labels.items())} {_number(histogram.total)}\n"
    yield f"{name}_count{rendered_labels(labels.items())} {below}\n"


def rendered_labels(labels: Iterable[tuple[str, str]]) -> str:
    """Labels as the page has them, with their braces."""
    inside = ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escape_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(text: str) -> str:
    return _escape_text(text).replace('"', '\\"')
