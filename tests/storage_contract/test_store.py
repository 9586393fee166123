"""What every engine guarantees beside its logs: claims, epochs, deletion, the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from tests.storage.batches import append, fill, joined, make_batch, offsets_of, read_all, ref_of
from tests.storage_contract.settled_store import is_shared

from ottla.config.topic import TopicConfig
from ottla.ports import (
    CatalogConflictError,
    DamagedError,
    EpochStart,
    FencedError,
    JsonValue,
    LogStore,
    Snapshot,
    UnclaimedLog,
)

CONFIG = TopicConfig()
END = 2**62


def now(outcome: int | asyncio.Future[int]) -> int:
    """The new revision of a catalog in this process, which commits at once."""
    assert isinstance(outcome, int)
    return outcome


def test_a_claim_has_a_higher_epoch_than_every_earlier_one(store: LogStore) -> None:
    epochs = []
    for _ in range(4):
        expected = store.epoch_of(ref_of())
        log = store.claim(ref_of(), CONFIG)
        epochs.append(log.epoch)
        if len(epochs) == 1:
            assert log.epoch == expected
        else:
            assert log.epoch > expected, "what the earlier claim had"
        assert store.epoch_of(ref_of()) == log.epoch
    log.close()
    expected = store.epoch_of(ref_of())
    assert expected > epochs[-1]
    assert store.claim(ref_of(), CONFIG).epoch == expected
    assert sorted(set(epochs)) == epochs


def test_first_claims_of_other_partitions_get_the_epoch_that_was_told(store: LogStore) -> None:
    store.claim(ref_of(partition=0), CONFIG)
    store.claim(ref_of(partition=0), CONFIG)
    expected = store.epoch_of(ref_of(partition=1))
    assert store.claim(ref_of(partition=1), CONFIG).epoch == expected


def test_a_raised_epoch_is_higher_than_all_and_leaves_claims_alone(store: LogStore) -> None:
    log = store.claim(ref_of(partition=0), CONFIG)
    told = store.epoch_of(ref_of(partition=1))
    store.raise_epochs([ref_of(partition=1)])
    assert store.epoch_of(ref_of(partition=0)) == log.epoch
    fill(log, 1)
    raised = store.epoch_of(ref_of(partition=1))
    assert raised > max(told, log.epoch)
    assert store.claim(ref_of(partition=1), CONFIG).epoch == raised
    assert store.claim(ref_of(partition=0), CONFIG).epoch >= raised


def test_an_older_claim_is_fenced(store: LogStore) -> None:
    old = store.claim(ref_of(), CONFIG)
    batches = fill(old, 3)
    new = store.claim(ref_of(), CONFIG)
    with pytest.raises(FencedError):
        append(old, make_batch(3))
    with pytest.raises(FencedError):
        old.flush()
    with pytest.raises(FencedError):
        old.roll()
    with pytest.raises(FencedError):
        old.trim(1)
    with pytest.raises(FencedError):
        old.save_snapshot(Snapshot(1, b""))
    assert read_all(new) == joined(batches)
    batches += fill(new, 2)
    old.close()
    assert read_all(new) == joined(batches)
    fill(new, 1)


def test_a_new_claim_finds_everything_of_the_old_one(store: LogStore) -> None:
    old = store.claim(ref_of(), TopicConfig(index_interval_bytes=150))
    batches = fill(old, 10, records=2)
    old.roll()
    batches += fill(old, 10, records=2)
    old.trim(5)
    old.save_snapshot(Snapshot(20, b"twenty"))
    new = store.claim(ref_of(), CONFIG)
    assert (new.start_offset, new.end_offset) == (5, 40)
    assert new.size_bytes == old.size_bytes
    assert new.segments() == old.segments()
    assert list(new.snapshots()) == [(20, b"twenty")]
    assert read_all(new, 5) == joined(batches[2:])


def test_epochs_are_kept_for_what_was_written_under_them(store: LogStore) -> None:
    starts = []
    for count in (3, 0, 2, 4):
        log = store.claim(ref_of(), CONFIG)
        if count:
            starts.append(EpochStart(log.epoch, log.end_offset))
        fill(log, count)
    assert list(log.epochs) == starts
    log.trim(3)
    assert list(log.epochs) == starts[1:]
    log.trim(4)
    assert list(log.epochs) == [EpochStart(starts[1].epoch, 4), starts[2]]
    log.trim(9)
    assert list(log.epochs) == [EpochStart(starts[2].epoch, 9)]


def test_deleted_partitions_are_gone(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    fill(log, 3)
    other = store.claim(ref_of(partition=1), CONFIG)
    batches = fill(other, 3)
    store.delete(ref_of())
    with pytest.raises(FencedError):
        append(log, make_batch(3))
    assert store.partitions() == [ref_of(partition=1)]
    store.delete(ref_of())
    store.delete(ref_of("never"))
    assert read_all(other) == joined(batches)
    again = store.claim(ref_of(number=2), CONFIG)
    assert (again.start_offset, again.end_offset) == (0, 0)


def test_a_deleted_topic_leaves_nothing_to_one_of_the_same_name(store: LogStore) -> None:
    log = store.claim(ref_of(number=1), CONFIG)
    fill(log, 5)
    log.trim(4)
    log.save_snapshot(Snapshot(5, b"old"))
    store.delete(ref_of(number=1))
    new = store.claim(ref_of(number=2), CONFIG)
    assert (new.start_offset, new.end_offset, new.epochs, list(new.snapshots())) == (0, 0, (), [])
    fill(new, 2)
    store.delete(ref_of(number=1))
    assert offsets_of(read_all(new)) == [0, 1], "the old id deletes nothing of the new topic"


def test_a_claim_with_another_topic_id_does_not_see_the_old_topic(store: LogStore) -> None:
    old = store.claim(ref_of(number=1), CONFIG)
    fill(old, 5)
    new = store.claim(ref_of(number=2), CONFIG)
    assert (new.start_offset, new.end_offset) == (0, 0)
    with pytest.raises(FencedError):
        append(old, make_batch(5))
    assert store.partitions() == [ref_of(number=2)]


def test_log_dirs_tell_the_size_of_each_partition(store: LogStore) -> None:
    fill(store.claim(ref_of(partition=0), CONFIG), 3)
    closed = store.claim(ref_of(partition=1), CONFIG)
    fill(closed, 2)
    closed.close()
    (folder,) = store.log_dirs()
    assert dict(folder.partitions) == {("orders", 0): 300, ("orders", 1): 200}
    if is_shared(store):
        assert folder.usable_bytes == folder.total_bytes == -1
    else:
        assert 0 < folder.usable_bytes <= folder.total_bytes


def test_a_partition_that_is_not_claimed_tells_its_size_and_age(store: LogStore) -> None:
    assert store.unclaimed([ref_of()]) == {}
    assert not store.has_data(ref_of())
    log = store.claim(ref_of(), CONFIG)
    fill(log, 3)  # the last of them has the time 1020
    log.roll()
    fill(log, 2)
    assert store.unclaimed([ref_of()]) == {}
    log.close()
    first_ms = 1000 if is_shared(store) else 1020  # of the first append, or the first segment
    assert store.unclaimed([ref_of()]) == {ref_of(): UnclaimedLog(500, first_ms, 0, 5)}
    log = store.claim(ref_of(), CONFIG)
    assert store.unclaimed([ref_of()]) == {}
    log.trim(5)
    log.close()
    left = UnclaimedLog(0, -1, 5, 5) if is_shared(store) else UnclaimedLog(200, 1040, 5, 5)
    assert store.unclaimed([ref_of()]) == {ref_of(): left}
    store.delete(ref_of())
    assert store.unclaimed([ref_of()]) == {}


def test_several_logs_are_trimmed_in_one_step(store: LogStore) -> None:
    logs = [store.claim(ref_of(partition=number), CONFIG) for number in range(3)]
    for log in logs:
        fill(log, 5)
        log.roll()
        fill(log, 2)
    lost = store.claim(ref_of(partition=2), CONFIG)
    failed = store.trim_all({logs[0]: 3, logs[1]: 6, logs[2]: 6})
    assert isinstance(failed, list)
    assert [None if error is None else type(error) for error in failed] == [None, None, FencedError]
    assert [logs[0].start_offset, logs[1].start_offset, lost.start_offset] == [3, 6, 0]
    assert [len(log.segments()) for log in (logs[0], logs[1], lost)] == [2, 1, 2]
    again = [store.claim(ref_of(partition=number), CONFIG).start_offset for number in range(2)]
    assert again == [3, 6]


def test_the_claim_of_a_condemned_partition_lasts(store: LogStore) -> None:
    log = store.claim(ref_of(), CONFIG)
    batches = fill(log, 3)
    store.condemn(ref_of(), DamagedError("by the caller's judgement"))
    assert read_all(log) == joined(batches)
    fill(log, 1)


def test_a_store_has_a_cluster_id(store: LogStore) -> None:
    assert len(store.cluster_id) == 22
    assert store.cluster_id == store.cluster_id


def test_the_catalog_changes_in_steps(store: LogStore) -> None:
    catalog = store.catalog
    first = catalog.revision
    second = now(
        catalog.commit({"topics/a": {"partitions": 3}, "topics/b": [1, "two", None, True]}, first)
    )
    assert second > first
    assert catalog.revision == second
    assert catalog.entries() == {"topics/a": {"partitions": 3}, "topics/b": [1, "two", None, True]}
    third = now(catalog.commit({"topics/a": None, "näme": 1.5, "gone": None}, second))
    assert catalog.entries() == {"topics/b": [1, "two", None, True], "näme": 1.5}
    with pytest.raises(CatalogConflictError):
        now(catalog.commit({"x": 1}, second))
    assert catalog.revision == third
    assert "x" not in catalog.entries()


def test_the_follower_gets_every_change_before_its_commit_is_answered(
    store: LogStore,
) -> None:
    catalog = store.catalog
    seen: list[tuple[int, object]] = []
    now(catalog.commit({"before": 1}, catalog.revision))
    earlier: list[int] = []
    catalog.follow(lambda revision, changes: earlier.append(revision))

    def follower(revision: int, changes: Mapping[str, JsonValue]) -> None:
        assert catalog.revision == revision
        assert [catalog.entries().get(key) for key in changes] == list(changes.values())
        seen.append((revision, dict(changes)))

    catalog.follow(follower)
    revision = now(catalog.commit({"a": [1, 2], "before": None}, catalog.revision))
    assert seen == [(revision, {"a": [1, 2], "before": None})]
    with pytest.raises(CatalogConflictError):
        now(catalog.commit({"b": 1}, revision - 1))
    assert len(seen) == 1
    last = now(catalog.commit({"b": 2}, revision))
    assert seen[1:] == [(last, {"b": 2})]
    assert not earlier, "there is one follower"


def test_what_the_catalog_keeps_is_a_copy(store: LogStore) -> None:
    value: dict[str, object] = {"partitions": 3}
    store.catalog.commit({"topic": value}, store.catalog.revision)  # type: ignore[dict-item]
    value["partitions"] = 4
    assert store.catalog.entries() == {"topic": {"partitions": 3}}


def test_claims_do_not_change_the_catalogs_revision(store: LogStore) -> None:
    revision = now(store.catalog.commit({"a": 1}, store.catalog.revision))
    for _ in range(3):
        store.claim(ref_of(), CONFIG)
    assert store.catalog.revision == revision
    assert store.catalog.entries() == {"a": 1}
