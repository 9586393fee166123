"""The local engine: a folder of partitions, its lock, its checkpoints and its catalog."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.catalog_journal import Journal
from ottla.storage.local.folder.cleaned_offsets import CleanedOffsets
from ottla.storage.local.folder.format_version import raise_version
from ottla.storage.local.folder.identity import (
    leave_clean_mark,
    open_identity,
    take_clean_mark,
)
from ottla.storage.local.folder.idle_partition import read_unclaimed_log
from ottla.storage.local.folder.offsets_file import OffsetsFile
from ottla.storage.local.folder.open_files import OpenFiles, default_open_segments
from ottla.storage.local.folder.removal import remove_files, remove_tree, remove_trees
from ottla.storage.local.log.partition_log import LocalLog
from ottla.storage.local.recovery import folder_recovery, log_messages
from ottla.storage.local.recovery.folder_check import (
    DamagedFilesError,
    IndexBuild,
    Suspects,
    as_storage_error,
    damaged,
    fingerprint_of,
)
from ottla.storage.local.recovery.folder_recovery import Suspicion
from ottla.storage.local.recovery.scan import READ_AT_ONCE_BYTES
from ottla.storage.local.store_context import Surroundings
from ottla.storage.local.sync.background_sync import BackgroundSyncs
from ottla.storage.local.sync.closing_sync import write_side_by_side
from ottla.storage.local.sync.disk_threads import StorageThreads

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LocalStoreOptions:
    """How the engine works; `cluster_id` None takes what the folder says, or makes one."""

    node_id: int = 1
    cluster_id: str | None = None
    checkpoint_interval_ms: int = 60_000
    max_open_segments: int | None = None
    sync_workers: int = 4
    background_workers: int = 2


class Damage(NamedTuple):
    """What was found in a partition whose files had this fingerprint."""

    text: str
    fingerprint: Hashable


class LocalStore:
    """Implements LogStore; to be used from one thread (syncs and deletions run in others)."""

    def __init__(
        self, path: str, lock: int, clock: Clock, options: LocalStoreOptions, rng: random.Random
    ) -> None:
        self._path = path
        self._lock = lock
        self._clock = clock
        self._options = options
        self._closed = False
        self._logs: dict[Key, LocalLog] = {}
        # The last claim of each partition since the start; the next one gets a higher epoch.
        self._claimed_epochs: dict[PartitionRef, int] = {}
        self._start_errors: dict[Key, StorageError] = {}
        self._idle_logs: dict[Key, UnclaimedLog] = {}
        self._found_ends: dict[Key, int] = {}  # by recoveries
        self.syncs = Histogram()
        self._removals: list[tuple[int, Sequence[str]]] = []
        self._damage: dict[PartitionRef, Damage] = {}
        self._retired: list[str] = []  # renamed folders whose rename is not durable yet
        self._next_checkpoint_ms = monotonic_ms(clock) + options.checkpoint_interval_ms
        self._cluster_id = open_identity(path, options.node_id, options.cluster_id)
        raise_version(path, self._cluster_id)
        self._recovery_points = checkpoint_files.read_offsets(
            self._file(layout.RECOVERY_POINTS_FILE)
        )
        self._log_starts = checkpoint_files.read_offsets(self._file(layout.LOG_STARTS_FILE))
        self._cleaned_offsets = CleanedOffsets(self._file(layout.CLEANED_OFFSETS_FILE))
        self._recovery_points_file = OffsetsFile(self._file(layout.RECOVERY_POINTS_FILE))
        self._log_starts_file = OffsetsFile(
            self._file(layout.LOG_STARTS_FILE), self._log_starts or None
        )
        self._suspects = Suspects(self._recovery_points, self._log_starts, self._recovered)
        self._in_checkpoints = {*self._recovery_points, *self._log_starts}
        self._executor = StorageThreads(options.sync_workers, thread_name_prefix="ottla-storage")
        # Removals, checkpoints and whatever else no client waits for.
        self._unawaited = StorageThreads(
            options.background_workers, thread_name_prefix="ottla-background"
        )
        self._background = BackgroundSyncs(self._unawaited)
        limit = options.max_open_segments
        self._surroundings = Surroundings(
            clock=clock,
            random=rng,
            files=OpenFiles(limit if limit is not None else default_open_segments()),
            executor=self._executor,
            unawaited=self._unawaited,
            background=self._background,
            timed_flushes={},
            remove_later=self._remove_later,
            save_log_start=self._save_log_start,
            note_log_start=self._note_log_start,
            cleaned_offsets=self._cleaned_offsets,
            ended=self._ended,
            sync_failed_late=self._sync_failed_late,
            syncs=self.syncs,
        )
        self._journal = Journal(self._file(layout.JOURNAL_FILE), self._sync_deletions)
        try:
            self._journal.raise_epoch(max(self._journal.epoch, self._highest_foreign_epoch()) + 1)
            self._remove_leftovers()
            self._recover_if_unclean()
        except BaseException:
            self._journal.close()
            raise

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)

    # -- opening

    @property
    def path(self) -> str:
        return self._path

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def _partition_folders(self) -> Iterator[tuple[Key, str]]:
        with os.scandir(self._path) as entries:
            folders = sorted((entry.name, entry.path) for entry in entries if entry.is_dir())
        for name, path in folders:
            key = layout.parse_folder_name(name)
            if key is not None and key[0] == layout.KAFKA_CATALOG_TOPIC:
                continue
            if key is not None:
                yield key, path
            elif not name.endswith((layout.DELETED_FOLDER_SUFFIX, layout.STRAY_FOLDER_SUFFIX)):
                log_messages.tell_ignored(path)

    def _highest_foreign_epoch(self) -> int:
        """The highest leader epoch in a folder that another program has written, else 0."""
        if not self._journal.is_new:
            return 0
        highest = 0
        for _, path in self._partition_folders():
            epochs = checkpoint_files.read_epochs(os.path.join(path, layout.LEADER_EPOCHS_FILE))
            highest = max(highest, epochs[-1].epoch if epochs else 0)
        return highest

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
        for key, path in self._partition_folders():
            if not checked:
                log_messages.tell_recovering(self._path)
            log_messages.tell_checking(path)
            checked += 1
            self._suspects.add(key, Suspicion())
            try:
                self._suspects.check_now(key, path, folder_recovery.cut_in_place)
            except (OSError, DamagedError) as error:
                log_messages.tell_offline(key, path, error)
                self._start_errors[key] = as_storage_error(error)
                topic_id = checkpoint_files.read_topic_id(path)
                if isinstance(error, DamagedFilesError) and topic_id is not None:
                    self._remember_damage(PartitionRef(*key, topic_id), error, error.fingerprint)
        if checked:
            seconds = self._clock.monotonic_seconds() - began
            log_messages.tell_recovered(checked, seconds, len(self._suspects))

    def _recovered(self, key: Key, end_offset: int) -> None:
        self._found_ends[key] = end_offset
        self._idle_logs.pop(key, None)
        self._cleaned_offsets.cut_end(key, end_offset)

    # -- the port

    @property
    def catalog(self) -> Catalog:
        return self._journal

    def epoch_of(self, ref: PartitionRef) -> int:
        log = self._logs.get((ref.topic, ref.partition))
        if log is not None and log.ref == ref:
            return log.epoch
        return self._next_epoch(ref)

    def _next_epoch(self, ref: PartitionRef) -> int:
        epoch = self._journal.epoch
        return epoch + 1 if self._claimed_epochs.get(ref) == epoch else epoch

    def raise_epochs(self, refs: Iterable[PartitionRef]) -> None:
        self._check_open()
        # One counter for all partitions.
        self._journal.raise_epoch(self._journal.epoch + 1)

    def claim(self, ref: PartitionRef, config: TopicConfig) -> LocalLog:
        self._check_open()
        key = (ref.topic, ref.partition)
        if (
            layout.parse_folder_name(layout.folder_name(*key)) != key
            or ref.topic == layout.KAFKA_CATALOG_TOPIC
        ):
            raise StorageError(f"{ref.topic!r} cannot be the name of a folder")
        self._check_damage(ref)
        earlier = self._logs.get(key)
        if earlier is not None:
            earlier.fence()
            self._recovery_points[key] = earlier.durability.synced_offset
        try:
            log = self._claim(ref, config)
        except DamagedFilesError as error:
            self._remember_damage(ref, error, error.fingerprint)
            raise
        except OSError as error:
            raise StorageError(f"cannot open {self._folder(key)}: {error}") from error
        if earlier is not None and earlier.ref == ref:
            log.durability.inherit(earlier.durability)
        is_synced = (
            earlier is not None
            and earlier.ref == ref
            and earlier.was_fenced  # and did not fail
            and earlier.durability.is_synced_up_to(log.end_offset)
        )
        is_flushed = config.flush_messages < LONG_MAX or config.flush_ms < LONG_MAX
        if is_flushed and not is_synced:
            self._sync_before_use(key, log)
        self._logs[key] = log
        self._claimed_epochs[ref] = log.epoch
        self._idle_logs.pop(key, None)
        return log

    def _claim(self, ref: PartitionRef, config: TopicConfig) -> LocalLog:
        key = (ref.topic, ref.partition)
        path = self._folder(key)
        # Before anything else: a thread that is still at work goes by the folder's name.
        was_checked = self._suspects.take_check(key)
        self._set_aside_other(ref, path)
        new_files = self._make_folder(ref, path)
        if key in self._suspects:
            self._suspects.check_before_use(key, path)
            was_checked = True
        folder = folder_recovery.Folder(path)
        self._index_before_use(key, folder, config)
        epochs = checkpoint_files.read_epochs(os.path.join(path, layout.LEADER_EPOCHS_FILE))
        self._journal.raise_epoch(max(self._next_epoch(ref), epochs[-1].epoch + 1 if epochs else 0))
        try:
            log = self._load(ref, config, folder)
        except folder_recovery.UntrustworthyError as error:
            if was_checked:
                raise damaged(path, error) from error
            log_messages.tell_untrusted(ref, error)
            self._suspects.add(key, Suspicion(checked_from=error.checked_from))
            self._suspects.check_before_use(key, path)
            log = self._load(ref, config, folder_recovery.Folder(path))
        for file in new_files:
            log.durability.also_sync(file)
        return log

    def _sync_before_use(self, key: Key, log: LocalLog) -> None:
        """Brings what a kill or an ended claim left unsynced to disk, before a retry of it is answered."""
        log.durability.also_sync(self._folder(key))
        log.durability.also_sync(self._path)
        try:
            log.durability.flush_now()
        except StorageError:
            self._suspects.add(key, Suspicion(sync_has_failed=True))
            raise

    def _index_before_use(
        self, key: Key, folder: folder_recovery.Folder, config: TopicConfig
    ) -> None:
        """Has missing indexes made on a thread, unless that is little."""
        size_bytes = sum(folder.sizes[base_offset] for base_offset in folder.unindexed)
        if size_bytes > READ_AT_ONCE_BYTES:
            log_messages.tell_unindexed(folder.path, len(folder.unindexed))
            build = IndexBuild(folder.path, folder.unindexed, config.index_interval_bytes)
            self._suspects.build_before_use(key, build)

    def _load(
        self, ref: PartitionRef, config: TopicConfig, folder: folder_recovery.Folder
    ) -> LocalLog:
        key = (ref.topic, ref.partition)
        folder_recovery.remove_damaged_txn_indexes(folder)
        log = LocalLog(ref, self._journal.epoch, folder, config, self._surroundings)
        log.load(folder, self._log_starts.get(key, 0), self._recovery_points.get(key, 0))
        return log

    def _folder(self, key: Key) -> str:
        return self._file(layout.folder_name(*key))

    def _set_aside_other(self, ref: PartitionRef, path: str) -> None:
        """Moves the folder of an older topic of that name away; a guess must remove no data."""
        found = checkpoint_files.read_topic_id(path)
        if found is None or found == ref.topic_id:
            return
        name = layout.retired_folder_name(ref.topic, ref.partition, layout.STRAY_FOLDER_SUFFIX)
        log_messages.tell_set_aside(path, found, name)
        os.rename(path, self._file(name))
        checkpoint_files.sync_path(self._path)
        self._forget((ref.topic, ref.partition))
        self._cleaned_offsets.write()

    def _make_folder(self, ref: PartitionRef, path: str) -> list[str]:
        """Makes what is missing; answers what has to be synced with the first data."""
        made = []
        if not os.path.isdir(path):
            self._forget((ref.topic, ref.partition))
            if (ref.topic, ref.partition) in self._in_checkpoints:
                # A partition that is made anew must not inherit the offsets of its predecessor.
                self._take_checkpoints()()
            self._cleaned_offsets.write()
            os.mkdir(path)
            made.append(self._path)
        metadata = os.path.join(path, layout.PARTITION_METADATA_FILE)
        if checkpoint_files.read_topic_id(path) is None:
            checkpoint_files.write_file(
                metadata, checkpoint_files.encode_partition_metadata(ref.topic_id)
            )
            made += [metadata, path]
        return made

    def _forget(self, key: Key) -> None:
        """Drops what is known of a partition whose data is gone."""
        self._suspects.drop(key)
        self._idle_logs.pop(key, None)
        self._found_ends.pop(key, None)
        self._recovery_points.pop(key, None)
        self._log_starts.pop(key, None)
        self._cleaned_offsets.forget(key)

    def delete(self, ref: PartitionRef) -> None:
        self._check_open()
        key = (ref.topic, ref.partition)
        path = self._folder(key)
        log = self._logs.get(key)
        try:
            if log is not None and log.ref == ref:
                del self._logs[key]
                log.fence_deleted()
            elif log is not None or checkpoint_files.read_topic_id(path) != ref.topic_id:
                return
            retired = self._file(
                layout.retired_folder_name(ref.topic, ref.partition, layout.DELETED_FOLDER_SUFFIX)
            )
            os.rename(path, retired)
            self._retired.append(retired)
            self._forget(key)
        except OSError as error:
            raise StorageError(f"cannot delete {path}: {error}") from error
        self._claimed_epochs.pop(ref, None)
        self._damage.pop(ref, None)

    def _sync_deletions(self) -> None:
        """Makes deletions durable, all of them at once, before the catalog says that nothing is left."""
        if not self._retired:
            return
        try:
            checkpoint_files.sync_path(self._path)
            self._cleaned_offsets.write()
        except OSError as error:
            raise StorageError(f"cannot sync {self._path}: {error}") from error
        # Not before: what is deleted could be back after a power loss, without some of its files.
        self._unawaited.submit(remove_trees, tuple(self._retired))
        self._retired.clear()

    def partitions(self) -> Sequence[PartitionRef]:
        found = []
        try:
            for (topic, partition), path in self._partition_folders():
                topic_id = checkpoint_files.read_topic_id(path)
                if topic_id is None:
                    log_messages.tell_unknown(path)
                else:
                    found.append(PartitionRef(topic, partition, topic_id))
        except OSError as error:
            raise StorageError(f"cannot list {self._path}: {error}") from error
        return found

    def offline(self) -> Mapping[PartitionRef, StorageError]:
        found = {}
        for key, error in self._start_errors.items():
            with contextlib.suppress(OSError):
                topic_id = checkpoint_files.read_topic_id(self._folder(key))
                if topic_id is not None and key in self._suspects:
                    found[PartitionRef(*key, topic_id)] = error
        return found

    def condemn(self, ref: PartitionRef, error: DamagedError) -> None:
        self._remember_damage(ref, error, self._fingerprint(ref))

    def _remember_damage(
        self, ref: PartitionRef, error: DamagedError, fingerprint: Hashable
    ) -> None:
        if fingerprint is not None:
            self._damage[ref] = Damage(str(error), fingerprint)

    def _check_damage(self, ref: PartitionRef) -> None:
        """Raises what was found in a partition's files, as long as they are the same."""
        damage = self._damage.get(ref)
        if damage is None:
            return
        if damage.fingerprint == self._fingerprint(ref):
            raise DamagedError(damage.text)
        del self._damage[ref]

    def _fingerprint(self, ref: PartitionRef) -> Hashable:
        try:
            return fingerprint_of(self._folder((ref.topic, ref.partition)))
        except OSError:
            return None

    def has_data(self, ref: PartitionRef) -> bool:
        key = (ref.topic, ref.partition)
        return key in self._logs or os.path.isdir(self._folder(key))

    def unclaimed(
        self, refs: Iterable[PartitionRef]
    ) -> Mapping[PartitionRef, UnclaimedLog | StorageError]:
        found: dict[PartitionRef, UnclaimedLog | StorageError] = {}
        for ref in refs:
            key = (ref.topic, ref.partition)
            if key in self._logs:
                continue
            try:
                found[ref] = self._unclaimed(key, self._folder(key))
            except FileNotFoundError:
                continue
            except OSError as error:
                found[ref] = StorageError(f"cannot look into {self._folder(key)}: {error}")
        return found

    def _unclaimed(self, key: Key, path: str) -> UnclaimedLog:
        # Remembered: nothing changes a log that is not claimed.
        if key not in self._idle_logs:
            end_offset = self._found_ends.get(key, self._recovery_points.get(key, 0))
            self._idle_logs[key] = read_unclaimed_log(
                path, self._log_starts.get(key, 0), end_offset
            )
        return self._idle_logs[key]

    def log_dirs(self) -> Sequence[LogDir]:
        sizes = {}
        try:
            for key, path in self._partition_folders():
                log = self._logs.get(key)
                if log is not None:
                    sizes[key] = log.size_bytes
                    continue
                sizes[key] = self._unclaimed(key, path).size_bytes
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
            self._log_starts_file.take(self._log_starts)()
        except OSError as error:
            unsaved = StorageError(f"cannot save where logs of {self._path} start: {error}")
            return [unsaved] * len(failed)
        return failed

    def tick(self, now_ms: int) -> None:
        for log in list(self._surroundings.timed_flushes):
            try:
                log.tick(now_ms)
            except StorageError as error:
                log_messages.tell_flush_failed(log.ref, error)
        try:
            self._sync_deletions()
        except StorageError as error:
            log_messages.tell_checkpoint_failed(self._path, error)
        due = [paths for due_ms, paths in self._removals if due_ms <= now_ms]
        if due:
            self._removals = [entry for entry in self._removals if entry[0] > now_ms]
            for paths in due:
                self._unawaited.submit(remove_files, paths)
        if now_ms >= self._next_checkpoint_ms and not self._background.checkpoint_is_running:
            self._next_checkpoint_ms = now_ms + self._options.checkpoint_interval_ms
            self.checkpoint()

    def checkpoint(self) -> None:
        """Syncs logs in the background and then writes how far that came: it bounds a recovery."""
        logs = [log for log in self._logs.values() if log.is_open and log.wants_checkpoint]
        self._background.checkpoint(logs, self._end_checkpoint)

    def _end_checkpoint(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._write_unless_it_fails(self._take_checkpoints())
        else:
            self._unawaited.submit(self._write_unless_it_fails, self._take_checkpoints())

    def _write_unless_it_fails(self, write: Callable[[], None]) -> None:
        """May run in another thread."""
        try:
            write()
        except OSError as error:
            log_messages.tell_checkpoint_failed(self._path, error)

    def _take_checkpoints(self) -> Callable[[], None]:
        """What is to be written now, and may be in another thread."""
        for key, log in self._logs.items():
            if log.is_open:  # else it was noted when the claim ended
                self._recovery_points[key] = log.durability.synced_offset
        self._in_checkpoints = {*self._recovery_points, *self._log_starts}
        writes = (
            self._recovery_points_file.take(self._recovery_points),
            self._log_starts_file.take(self._log_starts),
        )

        def write() -> None:
            for each in writes:
                each()

        return write

    def close(self) -> None:
        if self._closed:
            return
        self._suspects.close()
        self._background.stop()
        folder_is_dirty = write_side_by_side(list(self._logs.values()), self._path, self._executor)
        for log in list(self._logs.values()):
            try:
                log.close()
            except StorageError as error:
                log_messages.tell_flush_failed(log.ref, error)
        try:
            self._sync_deletions()
        except StorageError as error:
            log_messages.tell_checkpoint_failed(self._path, error)
        for _, paths in self._removals:
            self._unawaited.submit(remove_files, paths)
        self._unawaited.shutdown(wait=True)
        self._executor.shutdown(wait=True)
        self._closed = True
        try:
            if folder_is_dirty:
                checkpoint_files.sync_path(self._path)
            self._take_checkpoints()()
            if not self._suspects:
                leave_clean_mark(self._path, self._journal.epoch)
        except OSError as error:
            raise StorageError(f"cannot close {self._path} cleanly: {error}") from error
        finally:
            self._journal.close()
            os.close(self._lock)

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError(f"the store {self._path} is closed")

    # -- what logs ask for

    def _ended(self, log: LocalLog) -> None:
        """A claim is over: by its close, by a failure, or because of the next one."""
        key = (log.ref.topic, log.ref.partition)
        if self._logs.get(key) is not log:
            return
        self._recovery_points[key] = log.durability.synced_offset
        self._found_ends.pop(key, None)
        if log.was_closed:
            del self._logs[key]
        elif not log.was_fenced:
            checked_from, reached = None, 0
            if log.damage is not None:
                checked_from, reached = 0, log.end_offset
            self._suspects.add(key, Suspicion(log.sync_has_failed, checked_from, reached))

    def _sync_failed_late(self, ref: PartitionRef, error: OSError) -> None:
        log = self._logs.get((ref.topic, ref.partition))
        if log is not None and log.ref == ref and log.is_open:
            log.sync_failed(error)

    def _save_log_start(self, ref: PartitionRef, start_offset: int) -> None:
        starts = {**self._log_starts, (ref.topic, ref.partition): start_offset}
        self._log_starts_file.take(starts)()
        self._note_log_start(ref, start_offset)

    def _note_log_start(self, ref: PartitionRef, start_offset: int) -> None:
        key = (ref.topic, ref.partition)
        self._log_starts[key] = start_offset
        self._in_checkpoints.add(key)

    def _remove_later(self, paths: Sequence[str], due_ms: int) -> None:
        self._removals.append((due_ms, paths))
