"""Notes of what sources have planned: they contradict a plan, or say nothing."""

from __future__ import annotations

from pathlib import Path

from ottla.model import TopicPartition
from ottla.spark.sink.plan_witness import MOST_NOTES, Notes, is_contradicted
from ottla.spark.sink.progress import SourceRange

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def between(start: int, end: int, group: str | None = "fraud") -> SourceRange:
    return SourceRange("c", {ZERO: start, ONE: 0}, {ZERO: end, ONE: 0}, group)


def test_a_plan_is_contradicted_by_what_was_read_from_its_begin(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path))
    notes.leave(between(0, 10))
    assert not is_contradicted([between(0, 10)], str(tmp_path))
    assert is_contradicted([between(0, 20)], str(tmp_path))
    # Somewhere else, and of another pipeline.
    assert not is_contradicted([between(10, 20), between(0, 20, "other")], str(tmp_path))
    # One that is planned anew in the same driver, after its checkpoint was lost.
    notes.leave(between(0, 20))
    assert not is_contradicted([between(0, 20)], str(tmp_path))


def test_where_there_is_no_note_nothing_is_concluded(tmp_path: Path) -> None:
    assert not is_contradicted([between(0, 10)], None)
    assert not is_contradicted([between(0, 10)], str(tmp_path))
    Notes(None).leave(between(0, 10))
    Notes(str(tmp_path / "nowhere")).leave(between(0, 10))
    assert not is_contradicted([between(0, 20)], str(tmp_path / "nowhere"))
    Notes(str(tmp_path)).leave(between(0, 10))
    assert not is_contradicted([between(0, 0)], str(tmp_path))


def test_of_sources_that_begin_together_some_may_leave_no_note(tmp_path: Path) -> None:
    first, second = Notes(str(tmp_path)), Notes(str(tmp_path))
    first.leave(between(0, 10))
    both = [between(0, 10), between(0, 20)]
    assert not is_contradicted(both, str(tmp_path))
    second.leave(between(0, 20))
    assert not is_contradicted(both, str(tmp_path))
    assert is_contradicted([between(0, 10), between(0, 30)], str(tmp_path))


def test_notes_do_not_pile_up(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path))
    for number in range(3 * MOST_NOTES):
        notes.leave(between(number, number + 1))
        notes.leave(between(number, number + 1))
    assert len(list(tmp_path.glob("*/*"))) == MOST_NOTES
    assert is_contradicted([between(number, number + 9)], str(tmp_path))
