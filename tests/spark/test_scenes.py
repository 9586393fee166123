"""The scenes of faults themselves: a machine that is too slow must not move the fault to another micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.scenes import SLOW_MACHINE, Scene


class PlayedRun:
    """A run that has ended, or come to its step."""

    def __init__(self, words: str) -> None:
        self._words = words

    def said(self) -> str:
        return self._words

    def is_at_step_or_ended(self) -> bool:
        return True

    def wait_at_step(self) -> None:
        assert SLOW_MACHINE not in self._words


@pytest.mark.parametrize(("committed", "visits"), [(0, [2, 2]), (1, [2, 1])])
def test_a_crash_is_in_the_micro_batch_that_was_meant_after_a_run_that_spark_gave_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: int, visits: list[int]
) -> None:
    scene = Scene("127.0.0.1:1", "played", tmp_path)
    asked: list[int] = []
    done = iter([0, 0, committed])

    def start(at: Sequence[Any] | None = None, **more: Any) -> PlayedRun:
        assert at is not None
        asked.append(at[1])
        return PlayedRun(SLOW_MACHINE if len(asked) == 1 else "")

    monkeypatch.setattr(scene, "start", start)
    monkeypatch.setattr(scene, "_committed", lambda: next(done))
    scene.crash("SENT_MARKER", 2, "halt")
    assert asked == visits
