"""Many partitions and a large log on one machine; `make campaign` has twenty times as many."""

from __future__ import annotations

from pathlib import Path

from tests.scale.large_log import run_large_log
from tests.scale.partitions import run_scale

TOPICS, PARTITIONS = 5, 100


def test_hundreds_of_partitions_are_served_with_bounded_files_and_memory(tmp_path: Path) -> None:
    found = run_scale(tmp_path, TOPICS, PARTITIONS)
    print(found)
    assert found.resident_mb < 100
    assert found.open_files < 2 * found.partitions
    assert found.restart_s < 10


def test_a_large_log_is_searched_in_microseconds(tmp_path: Path) -> None:
    found = run_large_log(tmp_path, segments=4, lookups=400)
    print(found)
    # A search that went through what lies between would take a second.
    assert found.warm_us < 1000
    assert found.by_time_us < 2000
    assert found.open_ms < 5000
