"""The local engine: a folder of partitions, its lock, its checkpoints and its catalog."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.config.topic import LONG_MAX, TopicConfig
from ottla.histogram import Histogram
from ottla.ports import (
    Catalog,
    Clock,
    DamagedError,
    LogDir,
    PartitionLog,
    PartitionRef,
    StorageError,
    UnclaimedLog,
    monotonic_ms,
)
from ottla.storage.local import log_messages
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.catalog_journal import Journal
from ottla.storage.local.folder.claim_epoch_file import ClaimEpochFile
from ottla.storage.local.folder.format_version import raise_version, read_version
from ottla.storage.local.folder.identity import (
    hold_inherited_lock,
    leave_clean_mark,
    lock_folder,
    open_identity,
    take_clean_mark,
)
from ottla.storage.local.folder.offsets_file import Key
from ottla.storage.local.folder.open_files import OpenFiles, default_open_segments
from ottla.storage.local.folder.partition_listing import (
    highest_leader_epoch,
    partition_folders,
    partition_refs,
)
from ottla.storage.local.folder.removal import remove_files, remove_tree, remove_trees
from ottla.storage.local.folder.unclaimed_partition import read_unclaimed_log
from ottla.storage.local.folder.worker_folders import (
    check_is_data_folder,
    has_workers,
    identity_of_worker,
    worker_folder,
)
from ottla.storage.local.log.partition_log import EndCause, LocalLog
from ottla.storage.local.partition_entry import Damage, PartitionEntries, PartitionEntry
from ottla.storage.local.recovery.file_cuts import cut_in_place
from ottla.storage.local.recovery.folder_check import (
    DamagedFilesError,
    FolderChecks,
    IndexBuild,
    as_storage_error,
    damaged,
    fingerprint_of,
)
from ottla.storage.local.recovery.folder_recovery import Suspicion
from ottla.storage.local.recovery.partition_folder import (
    PartitionFolder,
    UntrustworthyError,
    open_folder,
)
from ottla.storage.local.recovery.scan import READ_AT_ONCE_BYTES
from ottla.storage.local.recovery.txn_index_checks import remove_damaged_txn_indexes
from ottla.storage.local.store_context import StoreContext
from ottla.storage.local.store_home import StoreHome, opening
from ottla.storage.local.supervised_folder import take_partitions_back
from ottla.storage.local.sync.background_sync import BackgroundSyncs
from ottla.storage.local.sync.closing_sync import write_side_by_side
from ottla.storage.local.sync.disk_threads import StorageThreads


@dataclass(frozen=True, slots=True)
class LocalStoreOptions:
    """The options of the engine; with `cluster_id` None it takes that of the folder, or makes one."""

    node_id: int = 1
    cluster_id: str | None = None
    checkpoint_interval_ms: int = 60_000
    max_open_segments: int | None = None
    sync_workers: int = 4
    background_workers: int = 2


class LocalStore:
    """Implements LogStore; to be used from one thread (syncs and deletions run in others)."""

    def __init__(
        self, home: StoreHome, clock: Clock, options: LocalStoreOptions, rng: random.Random
    ) -> None:
        """Takes over an opened folder, unless this raises."""
        self._home = home
        self._path = home.path
        self._epochs = home.epochs
        self._clock = clock
        self._options = options
        self._closed = False
        self.syncs = Histogram()
        self._removals: list[tuple[int, Sequence[str]]] = []
        self._retired: list[str] = []  # renamed folders whose rename is not durable yet
        self._next_checkpoint_ms = monotonic_ms(clock) + options.checkpoint_interval_ms
        self._entries = PartitionEntries(home.path)
        self._checks = FolderChecks(self._recovered)
        self._executor = StorageThreads(options.sync_workers, thread_name_prefix="ottla-storage")
        # For removals, checkpoints and other work that no client waits for.
        self._unawaited = StorageThreads(
            options.background_workers, thread_name_prefix="ottla-background"
        )
        self._background = BackgroundSyncs(self._unawaited)
        limit = options.max_open_segments
        self._context = StoreContext(
            clock=clock,
            random=rng,
            files=OpenFiles(limit if limit is not None else default_open_segments()),
            executor=self._executor,
            unawaited=self._unawaited,
            background=self._background,
            timed_flushes={},
            remove_later=self._remove_later,
            entries=self._entries,
            ended=self._ended,
            sync_failed_late=self._sync_failed_late,
            syncs=self.syncs,
        )
        foreign_epoch = highest_leader_epoch(home.path) if home.epochs.is_new else 0
        self._epochs.raise_epoch(max(self._epochs.epoch, foreign_epoch) + 1)
        self._remove_leftovers()
        self._recover_if_unclean()

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)

    def _folder(self, key: Key) -> str:
        return self._file(layout.folder_name(*key))

    # -- opening

    @property
    def path(self) -> str:
        return self._path

    @property
    def cluster_id(self) -> str:
        return self._home.cluster_id

    def _remove_leftovers(self) -> None:
        for name in os.listdir(self._path):
            if name.endswith(layout.DELETED_FOLDER_SUFFIX):
                self._unawaited.submit(remove_tree, self._file(name))
            elif name.endswith(layout.TEMPORARY_SUFFIX):
                with contextlib.suppress(OSError):
                    os.unlink(self._file(name))

    def _recover_if_unclean(self) -> None:
        if take_clean_mark(self._path):
            return
        began = self._clock.monotonic_seconds()
        checked = 0
        for key, path in partition_folders(self._path):
            if not checked:
                log_messages.log_recovering(self._path)
            log_messages.log_checking(path)
            checked += 1
            entry = self._entries.get_or_create(key)
            entry.suspicion = Suspicion()
            try:
                self._checks.check_now(entry, cut_in_place)
            except (OSError, DamagedError) as error:
                log_messages.log_offline(key, path, error)
                entry.start_error = as_storage_error(error)
                topic_id = checkpoint_files.read_topic_id(path)
                if isinstance(error, DamagedFilesError) and topic_id is not None:
                    ref = PartitionRef(*key, topic_id)
                    entry.damage = Damage(ref, str(error), error.fingerprint)
        if checked:
            seconds = self._clock.monotonic_seconds() - began
            log_messages.log_recovered(checked, seconds, self._suspect_count())

    def _suspect_count(self) -> int:
        return sum(entry.suspicion is not None for entry in self._entries)

    def _recovered(self, entry: PartitionEntry, end_offset: int) -> None:
        entry.found_end = end_offset
        entry.unclaimed = None
        self._entries.cut_cleaned_offset(entry, end_offset)

    # -- the port

    @property
    def catalog(self) -> Catalog:
        return self._home.catalog

    def epoch_of(self, ref: PartitionRef) -> int:
        entry = self._entries.get((ref.topic, ref.partition))
        if entry is not None and entry.log is not None and entry.log.ref == ref:
            return entry.log.epoch
        return self._next_epoch(ref, entry)

    def _next_epoch(self, ref: PartitionRef, entry: PartitionEntry | None) -> int:
        epoch = self._epochs.epoch
        if entry is not None and entry.claimed_epoch == epoch and entry.claimed_ref == ref:
            return epoch + 1
        return epoch

    def raise_epochs(self, refs: Iterable[PartitionRef]) -> None:
        self._check_open()
        # One counter for all partitions.
        self._epochs.raise_epoch(self._epochs.epoch + 1)

    def claim(self, ref: PartitionRef, config: TopicConfig) -> LocalLog:
        self._check_open()
        key = (ref.topic, ref.partition)
        if (
            layout.parse_folder_name(layout.folder_name(*key)) != key
            or ref.topic == layout.KAFKA_CATALOG_TOPIC
        ):
            raise StorageError(f"{ref.topic!r} cannot be the name of a folder")
        entry = self._entries.get_or_create(key)
        self._check_damage(entry, ref)
        earlier = entry.log
        if earlier is not None:
            earlier.fence()
            entry.recovery_point = earlier.durability.synced_offset
        try:
            log = self._claim(entry, ref, config)
        except DamagedFilesError as error:
            entry.damage = Damage(ref, str(error), error.fingerprint)
            raise
        except OSError as error:
            raise StorageError(f"cannot open {entry.path}: {error}") from error
        if earlier is not None and earlier.ref == ref:
            log.durability.inherit(earlier.durability)
        is_synced = (
            earlier is not None
            and earlier.ref == ref
            and earlier.end is not None
            and earlier.end.cause is EndCause.FENCED  # and did not fail
            and earlier.durability.is_synced_up_to(log.end_offset)
        )
        is_flushed = config.flush_messages < LONG_MAX or config.flush_ms < LONG_MAX
        if is_flushed and not is_synced:
            self._sync_before_use(entry, log)
        entry.log = log
        entry.claimed_ref, entry.claimed_epoch = ref, log.epoch
        entry.unclaimed = None
        return log

    def _claim(self, entry: PartitionEntry, ref: PartitionRef, config: TopicConfig) -> LocalLog:
        path = entry.path
        # First of all: a running check uses the folder by its name.
        was_checked = self._checks.take_check(entry)
        self._set_aside_other(entry, ref)
        new_files = self._make_folder(entry, ref)
        if entry.suspicion is not None:
            self._checks.check_before_use(entry)
            was_checked = True
        folder = open_folder(path)
        self._index_before_use(entry, folder, config)
        epochs = checkpoint_files.read_epochs(os.path.join(path, layout.LEADER_EPOCHS_FILE))
        first_epoch = epochs[-1].epoch + 1 if epochs else 0
        self._epochs.raise_epoch(max(self._next_epoch(ref, entry), first_epoch))
        try:
            log = self._load(entry, ref, config, folder)
        except UntrustworthyError as error:
            if was_checked:
                raise damaged(path, error) from error
            log_messages.log_untrusted(ref, error)
            entry.suspicion = Suspicion(checked_from=error.checked_from)
            self._checks.check_before_use(entry)
            log = self._load(entry, ref, config, open_folder(path))
        for file in new_files:
            log.durability.also_sync(file)
        return log

    def _sync_before_use(self, entry: PartitionEntry, log: LocalLog) -> None:
        """Syncs records that a crash or an ended claim left unsynced, before a retry of them is acknowledged."""
        log.durability.also_sync(entry.path)
        log.durability.also_sync(self._path)
        try:
            log.durability.flush_now()
        except StorageError:
            entry.suspicion = Suspicion(sync_has_failed=True)
            raise

    def _index_before_use(
        self, entry: PartitionEntry, folder: PartitionFolder, config: TopicConfig
    ) -> None:
        """Builds missing indexes on a thread; if their segments are small, the first use of each builds it."""
        size_bytes = sum(folder.sizes[base_offset] for base_offset in folder.unindexed)
        if size_bytes > READ_AT_ONCE_BYTES:
            log_messages.log_unindexed(folder.path, len(folder.unindexed))
            build = IndexBuild(folder.path, folder.unindexed, config.index_interval_bytes)
            self._checks.build_before_use(entry, build)

    def _load(
        self,
        entry: PartitionEntry,
        ref: PartitionRef,
        config: TopicConfig,
        folder: PartitionFolder,
    ) -> LocalLog:
        remove_damaged_txn_indexes(folder)
        log = LocalLog(ref, self._epochs.epoch, folder, config, entry, self._context)
        log.load(folder, entry.log_start or 0, entry.recovery_point or 0)
        return log

    def _set_aside_other(self, entry: PartitionEntry, ref: PartitionRef) -> None:
        """Renames the folder of an older topic of the same name; it is not removed, in case the guess is wrong."""
        found = checkpoint_files.read_topic_id(entry.path)
        if found is None or found == ref.topic_id:
            return
        name = layout.retired_folder_name(ref.topic, ref.partition, layout.STRAY_FOLDER_SUFFIX)
        log_messages.log_set_aside(entry.path, found, name)
        os.rename(entry.path, self._file(name))
        checkpoint_files.sync_path(self._path)
        self._entries.clear(entry)
        self._entries.save_cleaned_offsets()

    def _make_folder(self, entry: PartitionEntry, ref: PartitionRef) -> list[str]:
        """Makes the folder and its metadata file if missing; returns the paths to sync with the first data."""
        made = []
        if not os.path.isdir(entry.path):
            self._entries.clear(entry)
            if entry.is_in_checkpoints:
                # A new partition must not inherit the offsets of an earlier one of the same name.
                self._entries.take_checkpoints()()
            self._entries.save_cleaned_offsets()
            os.mkdir(entry.path)
            made.append(self._path)
        metadata = os.path.join(entry.path, layout.PARTITION_METADATA_FILE)
        if checkpoint_files.read_topic_id(entry.path) is None:
            checkpoint_files.write_file(
                metadata, checkpoint_files.encode_partition_metadata(ref.topic_id)
            )
            made += [metadata, entry.path]
        return made

    def delete(self, ref: PartitionRef) -> None:
        self._check_open()
        key = (ref.topic, ref.partition)
        entry = self._entries.get(key)
        log = None if entry is None else entry.log
        path = self._folder(key)
        try:
            if entry is not None and log is not None and log.ref == ref:
                entry.log = None
                log.fence_deleted()
            elif log is not None or checkpoint_files.read_topic_id(path) != ref.topic_id:
                return
            retired = self._file(
                layout.retired_folder_name(ref.topic, ref.partition, layout.DELETED_FOLDER_SUFFIX)
            )
            os.rename(path, retired)
            self._retired.append(retired)
        except OSError as error:
            raise StorageError(f"cannot delete {path}: {error}") from error
        if entry is not None:
            self._entries.forget(entry)

    def sync_deletions(self) -> None:
        # With one sync for all, before the catalog forgets the topics.
        if not self._retired:
            return
        try:
            checkpoint_files.sync_path(self._path)
            self._entries.save_cleaned_offsets()
        except OSError as error:
            raise StorageError(f"cannot sync {self._path}: {error}") from error
        # Not before the sync: after a power loss the folder could be back, without some of its files.
        self._unawaited.submit(remove_trees, tuple(self._retired))
        self._retired.clear()

    def partitions(self) -> Sequence[PartitionRef]:
        try:
            return partition_refs(self._path)
        except OSError as error:
            raise StorageError(f"cannot list {self._path}: {error}") from error

    def offline(self) -> Mapping[PartitionRef, StorageError]:
        found = {}
        for entry in self._entries:
            if entry.start_error is not None and entry.suspicion is not None:
                with contextlib.suppress(OSError):
                    topic_id = checkpoint_files.read_topic_id(entry.path)
                    if topic_id is not None:
                        found[PartitionRef(*entry.key, topic_id)] = entry.start_error
        return found

    def condemn(self, ref: PartitionRef, error: DamagedError) -> None:
        entry = self._entries.get_or_create((ref.topic, ref.partition))
        with contextlib.suppress(OSError):
            entry.damage = Damage(ref, str(error), fingerprint_of(entry.path))

    def _check_damage(self, entry: PartitionEntry, ref: PartitionRef) -> None:
        """Raises the known damage of a partition while its files are unchanged."""
        damage = entry.damage
        if damage is None or damage.ref != ref:
            return
        with contextlib.suppress(OSError):
            if damage.fingerprint == fingerprint_of(entry.path):
                raise DamagedError(damage.text)
        entry.damage = None

    def has_data(self, ref: PartitionRef) -> bool:
        key = (ref.topic, ref.partition)
        entry = self._entries.get(key)
        return (entry is not None and entry.log is not None) or os.path.isdir(self._folder(key))

    def unclaimed(
        self, refs: Iterable[PartitionRef]
    ) -> Mapping[PartitionRef, UnclaimedLog | StorageError]:
        found: dict[PartitionRef, UnclaimedLog | StorageError] = {}
        for ref in refs:
            key = (ref.topic, ref.partition)
            entry = self._entries.get(key)
            if entry is not None and entry.log is not None:
                continue
            try:
                found[ref] = self._unclaimed(key)
            except FileNotFoundError:
                continue
            except OSError as error:
                found[ref] = StorageError(f"cannot look into {self._folder(key)}: {error}")
        return found

    def _unclaimed(self, key: Key) -> UnclaimedLog:
        entry = self._entries.get(key)
        if entry is None:
            found = read_unclaimed_log(self._folder(key), 0, 0)
            self._entries.get_or_create(key).unclaimed = found
            return found
        if entry.unclaimed is None:
            end_offset = entry.recovery_point or 0 if entry.found_end is None else entry.found_end
            entry.unclaimed = read_unclaimed_log(entry.path, entry.log_start or 0, end_offset)
        return entry.unclaimed

    def log_dirs(self) -> Sequence[LogDir]:
        sizes = {}
        try:
            for key, _ in partition_folders(self._path):
                entry = self._entries.get(key)
                if entry is not None and entry.log is not None:
                    sizes[key] = entry.log.size_bytes
                else:
                    sizes[key] = self._unclaimed(key).size_bytes
            disk = os.statvfs(self._path)
        except OSError as error:
            raise StorageError(f"cannot look into {self._path}: {error}") from error
        usable_bytes = disk.f_bavail * disk.f_frsize
        return [LogDir(self._path, disk.f_blocks * disk.f_frsize, usable_bytes, sizes)]

    def trim_all(self, starts: Mapping[PartitionLog, int]) -> Sequence[StorageError | None]:
        failed: list[StorageError | None] = []
        for log, start_offset in starts.items():
            assert isinstance(log, LocalLog)
            try:
                log.trim_with_others(start_offset)
            except StorageError as error:
                failed.append(error)
            else:
                failed.append(None)
        try:
            self._entries.save_log_starts()
        except OSError as error:
            unsaved = StorageError(f"cannot save where logs of {self._path} start: {error}")
            return [unsaved] * len(failed)
        return failed

    def tick(self, now_ms: int) -> None:
        for log in list(self._context.timed_flushes):
            try:
                log.tick(now_ms)
            except StorageError as error:
                log_messages.log_flush_failed(log.ref, error)
        try:
            self.sync_deletions()
        except StorageError as error:
            log_messages.log_checkpoint_failed(self._path, error)
        due = [paths for due_ms, paths in self._removals if due_ms <= now_ms]
        if due:
            self._removals = [entry for entry in self._removals if entry[0] > now_ms]
            for paths in due:
                self._unawaited.submit(remove_files, paths)
        if now_ms >= self._next_checkpoint_ms and not self._background.checkpoint_is_running:
            self._next_checkpoint_ms = now_ms + self._options.checkpoint_interval_ms
            self.checkpoint()

    def checkpoint(self) -> None:
        """Syncs logs in the background and then saves their recovery points, which shortens a recovery."""
        logs = [log for log in self._logs() if log.is_open and log.wants_checkpoint]
        self._background.checkpoint(logs, self._end_checkpoint)

    def _end_checkpoint(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._try_write(self._entries.take_checkpoints())
        else:
            self._unawaited.submit(self._try_write, self._entries.take_checkpoints())

    def _try_write(self, write: Callable[[], None]) -> None:
        """May run in another thread."""
        try:
            write()
        except OSError as error:
            log_messages.log_checkpoint_failed(self._path, error)

    def _logs(self) -> list[LocalLog]:
        return [entry.log for entry in self._entries if entry.log is not None]

    def close(self) -> None:
        if self._closed:
            return
        self._checks.close()
        self._background.stop()
        folder_is_dirty = write_side_by_side(self._logs(), self._path, self._executor)
        for log in self._logs():
            try:
                log.close()
            except StorageError as error:
                log_messages.log_flush_failed(log.ref, error)
        try:
            self.sync_deletions()
        except StorageError as error:
            log_messages.log_checkpoint_failed(self._path, error)
        for _, paths in self._removals:
            self._unawaited.submit(remove_files, paths)
        self._unawaited.shutdown(wait=True)
        self._executor.shutdown(wait=True)
        self._closed = True
        try:
            if folder_is_dirty:
                checkpoint_files.sync_path(self._path)
            self._entries.take_checkpoints()()
            if not self._suspect_count():
                leave_clean_mark(self._path, self._epochs.epoch)
        except OSError as error:
            raise StorageError(f"cannot close {self._path} cleanly: {error}") from error
        finally:
            self._home.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"the store {self._path} is closed")

    # -- what logs ask for

    def _ended(self, log: LocalLog) -> None:
        """A claim has ended: it was closed, it failed, or a new claim fenced it."""
        entry = self._entries.get((log.ref.topic, log.ref.partition))
        if entry is None or entry.log is not log:
            return
        assert log.end is not None
        cause = log.end.cause
        entry.recovery_point = log.durability.synced_offset
        entry.found_end = None
        if cause is EndCause.CLOSED:
            entry.log = None
        elif cause is EndCause.DAMAGED:
            entry.suspicion = Suspicion(checked_from=0, reached=log.end_offset)
        elif cause is not EndCause.FENCED:
            entry.suspicion = Suspicion(sync_has_failed=cause is EndCause.SYNC_FAILED)

    def _sync_failed_late(self, ref: PartitionRef, error: OSError) -> None:
        entry = self._entries.get((ref.topic, ref.partition))
        log = None if entry is None else entry.log
        if log is not None and log.ref == ref and log.is_open:
            log.sync_failed(error)

    def _remove_later(self, paths: Sequence[str], due_ms: int) -> None:
        self._removals.append((due_ms, paths))


def open_local_store(
    path: str | os.PathLike[str],
    *,
    clock: Clock,
    options: LocalStoreOptions | None = None,
    rng: random.Random | None = None,
) -> LocalStore:
    """Opens a data folder, which is made if there is none; after an unclean stop its logs are checked.

    Partitions that several workers had come back into the folder itself.
    """
    folder = os.path.abspath(os.fspath(path))
    options = options or LocalStoreOptions()
    with opening(folder) as opened:
        check_is_data_folder(folder)
        os.makedirs(folder, exist_ok=True)
        lock = lock_folder(folder)
        opened.callback(os.close, lock)
        cluster_id = open_identity(folder, options.node_id, options.cluster_id)
        raise_version(folder, cluster_id)
        journal = Journal(os.path.join(folder, layout.JOURNAL_FILE))
        opened.callback(journal.close)
        if has_workers(folder):
            take_partitions_back(folder, cluster_id, journal)
        home = StoreHome(folder, cluster_id, [lock], catalog=journal, epochs=journal)
        store = LocalStore(home, clock, options, rng or random.Random())
        journal.sync_first = store.sync_deletions
        return store


def open_worker_store(
    path: str | os.PathLike[str],
    worker: int,
    *,
    lock_descriptor: int,
    catalog: Catalog,
    clock: Clock,
    options: LocalStoreOptions | None = None,
    rng: random.Random | None = None,
) -> LocalStore:
    """Opens the store of a worker, numbered from 1, in a data folder that a supervisor has opened.

    The store closes `lock_descriptor`, the supervisor's, which this process has inherited. The catalog belongs to the
    caller: before it counts the data of a topic as deleted, it calls `sync_deletions`.
    """
    data = os.path.abspath(os.fspath(path))
    folder = worker_folder(data, worker)
    with opening(folder) as opened:
        hold_inherited_lock(data, lock_descriptor)
        opened.callback(os.close, lock_descriptor)
        read_version(folder)
        # Fails if an earlier process of this worker is still there.
        lock = lock_folder(folder)
        opened.callback(os.close, lock)
        cluster_id = identity_of_worker(data, worker)
        epochs = ClaimEpochFile(os.path.join(folder, layout.CLAIM_EPOCH_FILE))
        home = StoreHome(
            folder, cluster_id, [lock, lock_descriptor], catalog=catalog, epochs=epochs
        )
        return LocalStore(home, clock, options or LocalStoreOptions(), rng or random.Random())
