"""Where the files of tests are."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from tests import quick_folders
from tests.quick_folders import memory_folder

import ottla


def test_a_broker_without_a_folder_is_in_memory_and_what_a_test_names_is_not(
    tmp_path: Path,
) -> None:
    memory = memory_folder()
    if memory is None:
        pytest.skip("there is no folder in memory with enough room")
    with ottla.Broker() as broker:
        assert Path(broker.data_dir).is_relative_to(memory)
    assert not tmp_path.is_relative_to(Path(tempfile.gettempdir()))


def test_processes_that_tests_start_have_the_temporary_folder_of_the_system() -> None:
    assert not os.environ.get("TMPDIR", "").startswith(tempfile.gettempdir())


def test_a_place_without_room_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(quick_folders, "MEMORY", tmp_path)
    monkeypatch.setattr(quick_folders, "ROOM_BYTES", 1 << 62)
    assert memory_folder() is None
    monkeypatch.setattr(quick_folders, "MEMORY", tmp_path / "missing")
    assert memory_folder() is None
