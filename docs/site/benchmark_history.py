"""The page with charts of all runs that benchmarks/history keeps: a small SVG for each row of the summary."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log
from typing import NamedTuple

from benchmarks.history import KAFKA, OURS, WORKERS, Figure, MeasuredRun, load_runs
from benchmarks.summary import LINES, Line
from benchmarks.text_table import number, table

WIDTH, HEIGHT, MARGIN = 240, 56, 8
# Readable on the light and on the dark page.
COLORS = {OURS: "#2e86de", WORKERS: "#e67e22"}
# The least that the vertical axis spans: a row that never changes is a flat line and not noise at full height.
LEAST_SPAN = log(1.5)

INTRODUCTION = """# Benchmarks over time

Each run of `make bench` that was kept in `benchmarks/history` is a point; [Benchmarks](benchmarks.md) says what the
rows are and how they are measured. The left chart is the ratio to Apache Kafka (our clients: to confluent-kafka) in
the same run: above the dashed line Ottla is faster, and for rows marked "less is better" below it Ottla needs less.
The right chart is the processor time of one Ottla process for a request, relative to the other's: below the dashed
line Ottla needs less. Both axes are logarithmic; a bar is from the least to the most of the rounds. The blue line is
one process, the orange line two workers.

A hollow point is a run while other programs wanted more than the cores of the machine: rates and durations of such a
run say little, because each program gets a part of a core that depends on its number of threads. Processor time says
more.

"""


class Point(NamedTuple):
    """A run on the horizontal axis, and what was measured in it."""

    position: int
    figure: Figure
    title: str
    is_busy: bool = False


class Series(NamedTuple):
    """The points of one peer."""

    peer: str
    points: list[Point]


def page(runs: Sequence[MeasuredRun] | None = None) -> str:
    """The whole page, in Markdown with tables in HTML."""
    runs = load_runs() if runs is None else runs
    if not runs:
        return f"{INTRODUCTION}No run is kept yet.\n"
    rows = "\n".join(filter(None, (table_row(line, runs) for line in LINES)))
    header = "<tr><th>row</th><th>ratio</th><th>CPU</th></tr>"
    return f"{INTRODUCTION}{list_of(runs)}\n\n<table>\n{header}\n{rows}\n</table>\n"


def list_of(runs: Sequence[MeasuredRun]) -> str:
    """When and where each run was."""
    lines = [
        [
            run.date[:16].replace("T", " "),
            run.commit,
            f"{run.machine['processor']}, {run.machine['cores']} cores",
            run.versions.get(KAFKA, "not measured"),
            f"{run.rounds} of {run.seconds:g} s",
            f"{run.load_before:.1f}, {run.load_after:.1f}",
        ]
        for run in runs
    ]
    return table(["run", "commit", "machine", "Kafka", "rounds", "load before, after"], lines)


def table_row(line: Line, runs: Sequence[MeasuredRun]) -> str:
    """The charts of one line; nothing if no run has it."""
    rows = [run.row(line.row, line.driver) for run in runs]
    named = next((row for row in reversed(rows) if row is not None), None)
    ratios = [Series(peer, ratio_points(line, runs, peer)) for peer in COLORS]
    if named is None or not any(series.points for series in ratios):
        return ""
    costs = [Series(OURS, cost_points(line, runs))] if line.is_main_measure else []
    cells = [
        escape(line.title(named)),
        chart(ratios, len(runs), "the ratio to the other in the same run"),
        chart(costs, len(runs), "processor time relative to the other in the same run"),
    ]
    return "<tr>" + "".join(f"<td>{each}</td>" for each in cells) + "</tr>"


def ratio_points(line: Line, runs: Sequence[MeasuredRun], peer: str) -> list[Point]:
    points = []
    for position, run in enumerate(runs):
        row = run.row(line.row, line.driver)
        ratio = line.ratio(row, peer) if row is not None else None
        if row is None or not ratio or ratio <= 0:
            continue
        rounds = row.ratio(peer, line.other)
        figure = (
            rounds if rounds is not None and line.is_main_measure else Figure(ratio, ratio, ratio)
        )
        points.append(Point(position, figure, f"{run.commit}, {peer}: {ratio:.2f}", run.is_busy))
    return points


def cost_points(line: Line, runs: Sequence[MeasuredRun]) -> list[Point]:
    points: list[Point] = []
    for position, run in enumerate(runs):
        row = run.row(line.row, line.driver)
        cost = row.cost(OURS) if row is not None else None
        ratio = line.cost_ratio(row, OURS) if row is not None else None
        if cost is None or not ratio:
            continue
        title = f"{run.commit}: {number(cost.median)}, {ratio:.2f} of the other"
        points.append(Point(position, Figure(ratio, ratio, ratio), title, run.is_busy))
    return points


def chart(all_series: Sequence[Series], run_count: int, title: str) -> str:
    """Lines with a bar at each point, and a dashed line where the ratio is 1."""
    figures = [point.figure for series in all_series for point in series.points]
    if not figures:
        return ""
    low = min(0.0, *(log(max(figure.least, 1e-6)) for figure in figures))
    high = max(0.0, *(log(max(figure.most, 1e-6)) for figure in figures))
    missing = max(0.0, LEAST_SPAN - (high - low)) / 2
    low, high = low - missing, high + missing

    def x(position: int) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * (position + 0.5) / run_count

    def y(value: float) -> float:
        share = (log(max(value, 1e-6)) - low) / (high - low)
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share

    parts = [
        f'<line x1="0" x2="{WIDTH}" y1="{y(1):.1f}" y2="{y(1):.1f}" stroke="currentColor" '
        'stroke-opacity="0.5" stroke-dasharray="3 3"/>'
    ]
    for series in all_series:
        color = COLORS[series.peer]
        path = " ".join(
            f"{x(each.position):.1f},{y(each.figure.median):.1f}" for each in series.points
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>')
        for each in series.points:
            at = f"{x(each.position):.1f}"
            least, most = y(each.figure.least), y(each.figure.most)
            fill = "none" if each.is_busy else color
            parts.append(
                f'<line x1="{at}" x2="{at}" y1="{least:.1f}" y2="{most:.1f}" stroke="{color}" '
                f'stroke-opacity="0.4" stroke-width="3"/><circle cx="{at}" cy="{y(each.figure.median):.1f}" '
                f'r="3" fill="{fill}" stroke="{color}"><title>{escape(each.title)}</title></circle>'
            )
    newest = next((series.points[-1].figure.median for series in all_series if series.points), 1.0)
    label = f"{title}; newest {newest:.2f}"
    drawing = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
    return f"{drawing} {newest:.2f}"
