"""Points of many things at the same times: a row of numbers for each thing, and one axis for all."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import isnan, nan
from typing import Final

Number = float | None
Values = tuple[Number, ...]

# Points are dropped some at a time: each drop moves all that remain.
_SPARE_SHARE: Final = 8


class Track:
    """The means of steps of time, for as long as `kept_ms`; a thing begins with its first value that is not 0."""

    def __init__(self, fields: Sequence[str], step_ms: int, kept_ms: int, max_things: int) -> None:
        self._fields = tuple(fields)
        self._step_ms = step_ms
        self._kept_ms = kept_ms
        self._max_things = max_things
        self._max_points = kept_ms // step_ms + 1
        self._times: array[int] = array("q")
        self._has_answer: array[int] = array("b")
        self._rows: dict[str, tuple[array[float], ...]] = {}
        self._step = _Step()
        self.left_out_count = 0
        """The things of the last step that did something and had no room."""

    def add(self, at_ms: int, things: Mapping[str, Values]) -> None:
        """The values of a moment; things without an entry have none."""
        number = at_ms // self._step_ms
        if self._step.count and number != self._step.number:
            self._store()
            self._step = _Step()
        self._step.add(number, at_ms, things, self._rows)

    def read(
        self, name: str, span_ms: int, idle: Number
    ) -> tuple[list[int], dict[str, list[Number]]]:
        """The points of the last `span_ms`, the step that is not over included; `idle` for a thing that did nothing."""
        first_ms = self._step.at_ms - span_ms
        times = [each for each in self._times if each >= first_ms]
        count = len(times)
        row = self._rows.get(name)
        values: dict[str, list[Number]] = {}
        for index, field in enumerate(self._fields):
            if row is None:
                values[field] = [idle] * count
            else:
                # A thing that began later has fewer points than the axis.
                known = row[index][-count:] if count else ()
                told = [None if isnan(each) else each for each in known]
                values[field] = [*([None] * (count - len(told))), *told]
        if self._step.count:
            times.append(self._step.at_ms)
            newest = self._step.means(name, len(self._fields))
            for index, field in enumerate(self._fields):
                is_idle = row is None and newest[index] is None
                values[field].append(idle if is_idle else newest[index])
        return times, values

    def sums(self, names: Iterable[str], span_ms: int) -> tuple[list[int], dict[str, list[Number]]]:
        """The sums over some things; a moment in which none of them is known has none."""
        times, none = self.read("", span_ms, None)
        # Things that did nothing are not kept: together they are 0 wherever there was an answer.
        answers = [*self._has_answer, *([self._step.has_answer] if self._step.count else [])]
        idle: list[Number] = [
            0.0 if each else None for each in answers[len(answers) - len(times) :]
        ]
        totals = {field: list(idle) for field in none}
        for name in names:
            if name not in self._rows and not self._step.has(name):
                continue
            for field, found in self.read(name, span_ms, 0.0)[1].items():
                total = totals[field]
                for index, value in enumerate(found):
                    if value is not None:
                        total[index] = (total[index] or 0.0) + value
        return times, totals

    def _store(self) -> None:
        width = len(self._fields)
        self._times.append(self._step.at_ms)
        self._has_answer.append(self._step.has_answer)
        self.left_out_count = 0
        for name in self._step.active:
            if name in self._rows:
                continue
            if len(self._rows) < self._max_things:
                self._rows[name] = tuple(array("d") for _ in range(width))
            else:
                self.left_out_count += 1
        for name, row in self._rows.items():
            for values, mean in zip(row, self._step.means(name, width), strict=True):
                values.append(nan if mean is None else mean)
        self._drop_old()

    def _drop_old(self) -> None:
        oldest_ms = self._times[-1] - self._kept_ms
        if (
            len(self._times) < self._max_points + self._max_points // _SPARE_SHARE
            and self._times[0] >= oldest_ms - self._kept_ms // _SPARE_SHARE
        ):
            return
        left = sum(each >= oldest_ms for each in self._times)
        del self._times[:-left]
        del self._has_answer[:-left]
        for row in self._rows.values():
            for values in row:
                # It may have begun later.
                del values[:-left]
        idle = [
            name
            for name, row in self._rows.items()
            if not any(each and not isnan(each) for values in row for each in values)
        ]
        for name in idle:
            del self._rows[name]


class _Step:
    """The sums of one step, of those things that are kept or do something."""

    def __init__(self) -> None:
        self.number = 0
        self.at_ms = 0
        self.count = 0
        self.has_answer = False
        self.active: set[str] = set()
        self._sums: dict[str, tuple[list[float], list[int]]] = {}

    def add(
        self, number: int, at_ms: int, things: Mapping[str, Values], kept: Mapping[str, object]
    ) -> None:
        self.number, self.at_ms = number, at_ms
        self.count += 1
        self.has_answer = self.has_answer or bool(things)
        for name, values in things.items():
            if any(values):
                self.active.add(name)
            elif name not in kept and name not in self._sums:
                continue
            sums, counts = self._sums.setdefault(name, ([0.0] * len(values), [0] * len(values)))
            for index, value in enumerate(values):
                if value is not None:
                    sums[index] += value
                    counts[index] += 1

    def has(self, name: str) -> bool:
        """Whether the thing has values in this step."""
        return name in self._sums

    def means(self, name: str, width: int) -> list[Number]:
        found = self._sums.get(name)
        if found is None:
            return [None] * width
        return [total / count if count else None for total, count in zip(*found, strict=True)]
