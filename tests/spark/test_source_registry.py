"""The registry of what sources of a driver have planned: it refutes a plan, or says nothing."""

from __future__ import annotations

from pathlib import Path

from ottla.model import TopicPartition
from ottla.spark.driver_folder import MAX_ENTRIES, SourceRegistry
from ottla.spark.source.stream_offsets import SourceRange

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def between(start: int, end: int, group: str | None = "fraud") -> SourceRange:
    return SourceRange("c", {ZERO: start, ONE: 0}, {ZERO: end, ONE: 0}, group)


def registry_in(folder: Path) -> SourceRegistry:
    """As another process opens it."""
    return SourceRegistry(str(folder))


def test_a_plan_is_refuted_by_what_was_read_from_its_start(tmp_path: Path) -> None:
    of_source = registry_in(tmp_path)
    of_source.record(between(0, 10), None)
    assert not registry_in(tmp_path).refutes([between(0, 10)])
    assert registry_in(tmp_path).refutes([between(0, 20)])
    # Another start, and another pipeline.
    assert not registry_in(tmp_path).refutes([between(10, 20), between(0, 20, "other")])
    # Planned anew in the same driver, after its checkpoint was lost.
    of_source.record(between(0, 20), None)
    assert not registry_in(tmp_path).refutes([between(0, 20)])


def test_without_an_entry_nothing_is_refuted(tmp_path: Path) -> None:
    assert not SourceRegistry().refutes([between(0, 10)])
    assert not registry_in(tmp_path).refutes([between(0, 10)])
    SourceRegistry().record(between(0, 10), None)
    registry_in(tmp_path / "nowhere").record(between(0, 10), None)
    assert not registry_in(tmp_path / "nowhere").refutes([between(0, 20)])
    registry_in(tmp_path).record(between(0, 10), None)
    assert not registry_in(tmp_path).refutes([between(0, 0)])


def test_of_sources_with_the_same_start_some_may_have_recorded_nothing(tmp_path: Path) -> None:
    registry_in(tmp_path).record(between(0, 10), None)
    both = [between(0, 10), between(0, 20)]
    assert not registry_in(tmp_path).refutes(both)
    registry_in(tmp_path).record(between(0, 20), None)
    assert not registry_in(tmp_path).refutes(both)
    assert registry_in(tmp_path).refutes([between(0, 10), between(0, 30)])


def test_an_entry_has_the_pipeline_name_of_its_source(tmp_path: Path) -> None:
    of_source = registry_in(tmp_path)
    of_source.record(between(0, 10), "fraud")
    of_source.record(between(10, 20), None)
    of_sink = registry_in(tmp_path)
    assert of_sink.pipeline_of(between(0, 10)) == "fraud"
    assert of_sink.pipeline_of(between(10, 20)) == ""
    assert of_sink.has(between(10, 20))
    assert of_sink.pipeline_of(between(20, 30)) is None
    assert not of_sink.has(between(20, 30))


def test_entries_do_not_pile_up(tmp_path: Path) -> None:
    of_source = registry_in(tmp_path)
    for number in range(3 * MAX_ENTRIES):
        of_source.record(between(number, number + 1), None)
        of_source.record(between(number, number + 1), None)
    assert len(list(tmp_path.glob("*/*"))) == MAX_ENTRIES
    assert registry_in(tmp_path).refutes([between(number, number + 9)])
