"""A crash while segments are replaced: afterwards there are the old segments or the new one, never less."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.storage.batches import Batch, fill, joined, read_all, ref_of
from tests.storage.conftest import Opener, crash_copy, is_about, patch_in

from ottla.config.topic import TopicConfig
from ottla.ports import StorageError
from ottla.storage.local.folder import checkpoint_files
from ottla.storage.local.log import segment_swap
from ottla.storage.local.log.partition_log import LocalLog

CONFIG = TopicConfig(index_interval_bytes=200)
# The steps that the file system takes in `segment_swap.py`: renames and syncs.
CALLS = [(os, "rename"), (os, "fsync"), (os, "unlink")]


def filled(open_store: Opener, folder: Path) -> tuple[LocalLog, list[Batch], list[Batch]]:
    """A log of three sealed segments, what was written to it, and what is to stay of the first two."""
    log = open_store(folder).claim(ref_of(), CONFIG)
    made: list[Batch] = []
    for _ in range(3):
        made += fill(log, 5, records=2)
        log.roll()
    made += fill(log, 2)
    return log, made, [made[2], made[7]]


def crash_points(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, Path]]:
    """Replaces segments and copies the folder before every step: what a kill would leave there."""
    folder = tmp_path / "a"
    log, _, kept = filled(open_store, folder)
    points: list[tuple[str, Path]] = []

    def spying(name: str, real: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if is_about(folder, arguments[0]):
                copy = crash_copy(folder, tmp_path / f"crash-{len(points)}")
                points.append((f"{name} {arguments}", copy))
            return real(*arguments, **keywords)

        return call

    with monkeypatch.context() as patched:
        for module, name in CALLS:
            patched.setattr(module, name, spying(name, getattr(module, name)))
        replacement = log.begin_replacement([0, 10])
        replacement.append(joined(kept), [batch.extent for batch in kept])
        replacement.flush()
        assert replacement.commit()
    points.append(("afterwards", crash_copy(folder, tmp_path / "crash-last")))
    return points


def test_a_kill_before_any_step_leaves_the_old_or_the_new(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = crash_points(open_store, tmp_path, monkeypatch)
    _, made, kept = filled(open_store, tmp_path / "reference")
    old, new = joined(made), joined([*kept, *made[10:]])
    seen = []
    for step, folder in points:
        log = open_store(folder).claim(ref_of(), CONFIG)
        data = read_all(log)
        assert data in (old, new), step
        assert (log.start_offset, log.end_offset) == (0, 32), step
        # Every offset and time is found as it should be: the indexes are those of the data.
        left = made if data == old else [*kept, *made[10:]]
        for batch in left:
            assert bytes(log.read(batch.extent.base_offset, 0, 1 << 62)) == batch.data, step
            found = log.batch_at_timestamp(batch.extent.max_timestamp_ms, 0)
            assert found is not None, step
            assert bytes(found) == batch.data, step
        names = os.listdir(folder / "orders-0")
        assert not [name for name in names if name.endswith((".swap", ".cleaned"))], step
        seen.append(data == new)
    assert seen == sorted(seen), "once it is done it stays done"
    assert seen.count(False) >= 4
    assert seen.count(True) >= 8


def test_a_second_kill_while_a_start_completes_it_changes_nothing(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = crash_points(open_store, tmp_path, monkeypatch)
    _, made, kept = filled(open_store, tmp_path / "reference")
    old, new = joined(made), joined([*kept, *made[10:]])
    for number, (step, folder) in enumerate(points):
        expected = None
        for steps in range(12):
            copy = crash_copy(folder, tmp_path / f"again-{number}-{steps}")
            finished = _finish_partly(copy / "orders-0", steps, monkeypatch)
            log = open_store(copy).claim(ref_of(), CONFIG)
            data = read_all(log)
            assert data in (old, new), (step, steps)
            assert expected in (None, data), (step, steps)
            expected = data
            if finished:
                break


def _finish_partly(folder: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Completes or undoes a swap, and dies after so many steps; says whether it came to the end."""
    left = [steps]

    def dying(real: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if is_about(folder, arguments[0]):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
            return real(*arguments, **keywords)

        return call

    with monkeypatch.context() as patched:
        for module, name in CALLS:
            patched.setattr(module, name, dying(getattr(module, name)))
        try:
            segment_swap.finish(str(folder))
        except KeyboardInterrupt:
            return False
    return True


@pytest.mark.parametrize("failing", range(14))
def test_a_failing_step_ends_the_claim_and_the_next_one_mends_it(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), CONFIG)
    made = fill(log, 5, records=2)
    log.roll()
    made += fill(log, 2)
    replacement = log.begin_replacement([0])
    replacement.append(made[2].data, [made[2].extent])
    replacement.flush()
    left = [failing]
    real = os.rename

    def rename(source: str, target: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(5, "no luck")
        real(source, target)

    with monkeypatch.context() as patched:
        patch_in(tmp_path, patched, os, "rename", rename)
        try:
            assert replacement.commit()
        except StorageError:
            with pytest.raises(StorageError):
                log.read(0, 1, 100)
    again = store.claim(ref_of(), CONFIG)
    assert read_all(again) in (joined(made), joined([made[2], *made[5:]]))
    assert again.end_offset == 12


def test_what_kafka_left_in_the_middle_of_a_swap_is_undone(
    open_store: Opener, tmp_path: Path
) -> None:
    """Kafka renames the log first: with an index still .cleaned the old segment is all there."""
    log, made, _ = filled(open_store, tmp_path / "a")
    folder = crash_copy(tmp_path / "a", tmp_path / "b") / "orders-0"
    (folder / f"{0:020d}.log.swap").write_bytes(made[2].data)
    (folder / f"{0:020d}.index.cleaned").write_bytes(b"")
    again = open_store(tmp_path / "b").claim(ref_of(), CONFIG)
    assert read_all(again) == joined(made)
    assert read_all(log) == joined(made)


def test_old_files_are_removed_later(open_store: Opener, tmp_path: Path, clock: Any) -> None:
    store = open_store(tmp_path)
    log = store.claim(ref_of(), TopicConfig(file_delete_delay_ms=500))
    made = fill(log, 3)
    log.roll()
    replacement = log.begin_replacement([0])
    replacement.append(made[2].data, [made[2].extent])
    replacement.flush()
    assert replacement.commit()
    deleted = tmp_path / "orders-0" / f"{0:020d}.log.deleted"
    clock.value_ms += 499
    store.tick(clock.value_ms)
    assert deleted.exists()
    clock.value_ms += 1
    store.tick(clock.value_ms)
    store.close()
    assert not deleted.exists()


def test_the_cleaned_offset_is_in_kafkas_file_and_goes_with_what_it_is_about(
    open_store: Opener, tmp_path: Path
) -> None:
    log, _, _ = filled(open_store, tmp_path / "a")
    log.save_cleaned_offset(30)
    file = tmp_path / "a" / "cleaner-offset-checkpoint"
    assert file.read_bytes() == b"0\n1\norders 0 30\n"
    assert checkpoint_files.read_offsets(str(file)) == {("orders", 0): 30}
    cut = crash_copy(tmp_path / "a", tmp_path / "b")
    again = open_store(cut).claim(ref_of(), CONFIG)
    assert again.cleaned_offset == 30
    torn = crash_copy(tmp_path / "a", tmp_path / "c")
    with (torn / "orders-0" / f"{20:020d}.log").open("r+b") as segment:
        segment.truncate(150)
    shorter = open_store(torn).claim(ref_of(), CONFIG)
    assert shorter.end_offset == 22
    assert shorter.cleaned_offset is None


def test_a_damaged_replacement_leaves_the_old_segments(
    open_store: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, made, kept = filled(open_store, tmp_path / "live")
    replacement = log.begin_replacement([0, 10])
    replacement.append(joined(kept), [batch.extent for batch in kept])
    replacement.flush()
    copies: list[Path] = []
    real = segment_swap.show

    def show(stem: str) -> None:
        real(stem)
        copies.append(crash_copy(tmp_path / "live", tmp_path / "killed"))

    monkeypatch.setattr(segment_swap, "show", show)
    replacement.commit()
    path = next(copies[0].glob("*/*.log.swap"))
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert read_all(open_store(copies[0]).claim(ref_of(), CONFIG)) == joined(made)
