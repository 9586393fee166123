"""Replacing segments by one with what is left of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.storage.batches import Batch, append, fill, joined, make_batch, read_all, ref_of
from tests.storage_contract.settled_store import is_shared, snapshots_kept

from ottla.config.topic import TopicConfig
from ottla.ports import FencedError, LogStore, PartitionLog, Replacement, Snapshot

CONFIG = TopicConfig(index_interval_bytes=200)


def three_segments(store: LogStore) -> tuple[PartitionLog, list[Batch]]:
    """Segments at 0, 10 and 20, and an active one at 30 with a batch in it."""
    log = store.claim(ref_of(), CONFIG)
    made = []
    for _ in range(3):
        made += fill(log, 5, records=2)
        log.roll()
    return log, made + fill(log, 1, records=2)


def write(replacement: Replacement, batches: list[Batch]) -> None:
    if batches:
        replacement.append(joined(batches), [batch.extent for batch in batches])
    assert replacement.flush() is None


def claims(store: LogStore, log: PartitionLog) -> Iterator[PartitionLog]:
    """The log as it is, and as the next claim finds it."""
    yield log
    yield store.claim(ref_of(), CONFIG)


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments()]


def test_what_was_committed_is_read_instead(store: LogStore) -> None:
    log, made = three_segments(store)
    before = bytes(log.read(0, 1 << 20, 30))
    old = log.read(0, 1 << 20, 10)
    replacement = log.begin_replacement([0, 10])
    kept = [made[1], made[6], made[9]]
    write(replacement, kept)
    assert bytes(log.read(0, 1 << 20, 30)) == before, "not before the commit"
    assert replacement.commit()
    assert read_all(log) == joined([*kept, *made[10:]])
    assert bases(log) == [0, 20, 30]
    assert bytes(old) == joined(made[:5]), "what was read stays valid"
    assert log.size_bytes == sum(len(batch.data) for batch in (*kept, *made[10:]))
    assert (log.start_offset, log.end_offset) == (0, 32)
    assert log.segments()[0].end_offset == 20


def test_offsets_and_timestamps_are_found_in_it(store: LogStore) -> None:
    log, made = three_segments(store)
    replacement = log.begin_replacement([0, 10, 20])
    kept = made[3:15:4]
    write(replacement, kept)
    assert replacement.commit()
    left = [*kept, made[15]]
    for offset in range(32):
        following = [batch for batch in left if batch.extent.last_offset >= offset]
        assert bytes(log.read(offset, 0, 32)) == following[0].data
        found = log.batch_at_timestamp(1000 + 10 * offset, 0)
        late = [batch for batch in left if batch.extent.max_timestamp_ms >= 1000 + 10 * offset]
        assert (None if found is None else bytes(found)) == (late[0].data if late else None)


def test_it_outlives_the_claim(store: LogStore) -> None:
    log, made = three_segments(store)
    replacement = log.begin_replacement([0, 10])
    write(replacement, made[4:5])
    assert replacement.commit()
    log.save_cleaned_offset(20)
    again = store.claim(ref_of(), CONFIG)
    assert read_all(again) == joined([made[4], *made[10:]])
    assert again.cleaned_offset == 20
    assert bases(again) == [0, 20, 30]


def test_a_segment_may_end_up_empty(store: LogStore) -> None:
    log, made = three_segments(store)
    for base_offset in (0, 10):
        replacement = log.begin_replacement([base_offset])
        write(replacement, [])
        assert replacement.commit()
    for claimed in claims(store, log):
        assert read_all(claimed) == joined(made[10:])
        assert bases(claimed) == [0, 10, 20, 30]
        assert claimed.start_offset == 0
        found = claimed.batch_at_timestamp(0, 0)
        assert found is not None
        assert bytes(found) == made[10].data


def test_appends_go_on_while_it_is_written(store: LogStore) -> None:
    log, made = three_segments(store)
    replacement = log.begin_replacement([10, 20])
    more = make_batch(32, 1, epoch=log.epoch)
    append(log, more)
    log.roll()
    write(replacement, made[7:8])
    assert replacement.commit()
    assert read_all(log) == joined([*made[:5], made[7], made[15], more])


def test_what_is_abandoned_leaves_no_trace(store: LogStore) -> None:
    log, made = three_segments(store)
    before = log.segments(), log.size_bytes, store.log_dirs()[0].partitions
    replacement = log.begin_replacement([0, 10])
    write(replacement, made[:2])
    replacement.abandon()
    assert (log.segments(), log.size_bytes, store.log_dirs()[0].partitions) == before
    again = log.begin_replacement([0])
    write(again, made[:1])
    assert again.commit()
    again.abandon()
    assert read_all(log) == joined([made[0], *made[5:]])


def test_segments_that_were_trimmed_meanwhile_do_not_come_back(store: LogStore) -> None:
    log, made = three_segments(store)
    replacement = log.begin_replacement([0, 10])
    write(replacement, made[:10])
    log.trim(12)
    assert not replacement.commit()
    assert log.start_offset == 12
    assert bases(log) == [12 if is_shared(store) else 10, 20, 30]
    assert read_all(log) == joined(made[6:])


def test_a_log_that_was_claimed_anew_is_not_touched(store: LogStore) -> None:
    log, made = three_segments(store)
    replacement = log.begin_replacement([0, 10])
    write(replacement, made[:1])
    again = store.claim(ref_of(), CONFIG)
    with pytest.raises(FencedError):
        replacement.append(made[1].data, [made[1].extent])
    with pytest.raises(FencedError):
        replacement.commit()
    replacement.abandon()
    assert read_all(again) == joined(made)


@pytest.mark.parametrize("base_offsets", [[30], [20, 30], [0, 20], [5], [10, 0]])
def test_only_neighbours_that_are_sealed_can_be_replaced(
    store: LogStore, base_offsets: list[int]
) -> None:
    log, _ = three_segments(store)
    with pytest.raises(ValueError, match="no neighbouring sealed segments"):
        log.begin_replacement(base_offsets)


def test_what_does_not_lie_in_the_old_segments_is_refused(store: LogStore) -> None:
    log, made = three_segments(store)
    replacement = log.begin_replacement([10])
    for batch in (made[4], made[10]):
        with pytest.raises(ValueError, match="replace"):
            replacement.append(batch.data, [batch.extent])
    replacement.append(made[6].data, [made[6].extent])
    with pytest.raises(ValueError, match="replace"):
        replacement.append(made[5].data, [made[5].extent])


def test_snapshots_of_segments_that_are_gone_go(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    for _ in range(6):
        fill(log, 1)
        log.save_snapshot(Snapshot(log.end_offset, b"x"))
        log.roll()
    replacement = log.begin_replacement([0, 1, 2, 3])
    write(replacement, [])
    assert replacement.commit()
    kept = [6, 5, 4][: snapshots_kept(store, 3)]
    assert [snapshot.offset for snapshot in log.snapshots()] == kept


def test_the_cleaned_offset_belongs_to_the_partition(store: LogStore) -> None:
    log, _ = three_segments(store)
    before = log.cleaned_offset
    log.save_cleaned_offset(7)
    log.save_cleaned_offset(9)
    assert (before, log.cleaned_offset) == (None, 9)
    assert store.claim(ref_of(partition=1), CONFIG).cleaned_offset is None
    store.delete(ref_of())
    assert store.claim(ref_of(number=2), CONFIG).cleaned_offset is None
