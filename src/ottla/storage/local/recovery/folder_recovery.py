"""What is done with a partition's folder before it is used.

After an unclean stop everything from the recovery point on is checked, and the log is cut at the
first batch that is not whole; batches behind it that are whole are kept in a file aside. Below the
recovery point everything was on disk: what is missing there is damage, and nothing is changed.
After a clean stop only the headers behind the last index entry are looked at.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.events import EventLog
from ottla.ports import DamagedError
from ottla.records.crc import crc32c
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.checkpoint_files import Checksum
from ottla.storage.local.log import segment_swap
from ottla.storage.local.log.index import (
    DamagedIndexError,
    EmptyIndexError,
    SegmentIndex,
    empty_index,
    read_active_index,
)
from ottla.storage.local.log.leader_epochs import LeaderEpochs
from ottla.storage.local.log.transaction_index import sound_bytes
from ottla.storage.local.recovery.disk_trouble import (
    SEGMENT_MISSING,
    SEGMENTS_OVERLAP,
    keep_aside,
    whole_batch_position,
)
from ottla.storage.local.recovery.scan import (
    READ_AT_ONCE_BYTES,
    Pause,
    SegmentScan,
    check_crc,
    check_nothing,
    never_pause,
    scan_file,
)

logger = EventLog(__name__)

_SCANNING: Final = "%(path)s: scanning it from the beginning: %(reason)s"
_COPY_BYTES: Final = 1024 * 1024
_INDEX_SUFFIXES: Final = (layout.INDEX_SUFFIX, layout.TIME_INDEX_SUFFIX)
_OTHER_FILES: Final = (
    layout.LEADER_EPOCHS_FILE,
    layout.PARTITION_METADATA_FILE,
    layout.TXN_CHECKSUMS_FILE,
)

Cut = Callable[[str, int], None]


def _tell_foreign(path: str) -> None:
    logger.warning("file_ignored", "%(path)s does not belong into a partition: ignored", path=path)


class Folder:
    """The files of a partition, after a replacement of segments was completed or undone."""

    __slots__ = (
        "_bases",
        "changed",
        "path",
        "sizes",
        "snapshots",
        "txn_checksums",
        "txn_indexes",
        "unindexed",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.changed = False  # files were removed
        self.sizes: dict[int, int] = {}  # of the .log files, by base offset, in order
        self.snapshots: list[int] = []
        self.txn_checksums: dict[int, Checksum] = {}  # as they were noted
        sizes: dict[int, int] = {}
        indexes: list[tuple[int, str]] = []
        segment_swap.finish(path)
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith((layout.DELETED_SUFFIX, layout.TEMPORARY_SUFFIX)):
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)
                    continue
                if layout.CUT_MARK in entry.name:
                    continue
                parsed = layout.parse_offset_file_name(entry.name)
                if parsed is None or not entry.is_file():
                    if entry.name not in _OTHER_FILES:
                        _tell_foreign(entry.path)
                    elif entry.name == layout.TXN_CHECKSUMS_FILE:
                        self.txn_checksums = checkpoint_files.read_checksums(entry.path)
                elif parsed[1] == layout.LOG_SUFFIX:
                    sizes[parsed[0]] = entry.stat().st_size
                elif parsed[1] == layout.SNAPSHOT_SUFFIX:
                    self.snapshots.append(parsed[0])
                elif parsed[1] in layout.SEGMENT_SUFFIXES:
                    indexes.append((parsed[0], entry.path))
                else:
                    _tell_foreign(entry.path)
        for base_offset, index_path in indexes:
            if base_offset not in sizes:
                text = "%(path)s has no segment: removed"
                logger.warning("index_removed", text, path=index_path)
                os.unlink(index_path)
        self.sizes = dict(sorted(sizes.items()))
        self._bases: list[int] | None = None
        self.snapshots.sort()
        found = {(base, os.path.splitext(index_path)[1]) for base, index_path in indexes}
        # The sealed segments that have not both of their indexes, although there is something in them.
        self.unindexed = [
            base
            for base, size_bytes in list(self.sizes.items())[:-1]
            if size_bytes and not {(base, suffix) for suffix in _INDEX_SUFFIXES} <= found
        ]
        self.txn_indexes = sorted(
            base_offset
            for base_offset, index_path in indexes
            if index_path.endswith(layout.TXN_INDEX_SUFFIX) and base_offset in sizes
        )

    def stem(self, base_offset: int) -> str:
        return os.path.join(self.path, layout.offset_file_name(base_offset, ""))

    def remove_segment(self, base_offset: int) -> None:
        for suffix in layout.SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.stem(base_offset) + suffix)
        del self.sizes[base_offset]
        self._bases = None
        if base_offset in self.txn_indexes:
            self.txn_indexes.remove(base_offset)
        self.changed = True

    def segment_end(self, base_offset: int, end_offset: int) -> int:
        """Where a segment ends at most, in a log that ends at `end_offset`."""
        if self._bases is None:
            self._bases = list(self.sizes)
        following = bisect_right(self._bases, base_offset)
        return self._bases[following] if following < len(self._bases) else end_offset

    def remove_snapshots_above(self, offset: int) -> None:
        for snapshot in [found for found in self.snapshots if found > offset]:
            logger.warning(
                "snapshot_removed",
                "%(path)s is of no use above offset %(offset)d: removed",
                path=self.stem(snapshot) + layout.SNAPSHOT_SUFFIX,
                offset=offset,
            )
            os.unlink(self.stem(snapshot) + layout.SNAPSHOT_SUFFIX)
            self.snapshots.remove(snapshot)
            self.changed = True


def cut_in_place(path: str, size_bytes: int) -> None:
    """Shortens a file that is not mapped."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, size_bytes)
        os.fsync(fd)
    finally:
        os.close(fd)


def cut_by_copy(path: str, size_bytes: int) -> None:
    """Replaces a file by its beginning: readers may still look at mappings of the old one."""
    temporary = path + layout.TEMPORARY_SUFFIX
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            position = 0
            while position < size_bytes:
                data = os.pread(source, min(_COPY_BYTES, size_bytes - position), position)
                if not data:
                    raise OSError(f"{path} is shorter than {size_bytes} bytes")
                checkpoint_files.write_all(target, data)
                position += len(data)
            os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)
    os.replace(temporary, path)


def write_again(path: str, start: int) -> None:
    """Writes a file's bytes over themselves and syncs them.

    After a failed fsync the kernel may take pages for clean that never reached the disk.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        while data := os.pread(fd, _COPY_BYTES, start):
            start += os.pwrite(fd, data, start)
        os.fsync(fd)
    finally:
        os.close(fd)


def _scan_start(folder: Folder, base_offset: int, recovery_point: int) -> SegmentScan:
    """Where to begin in the segment with the recovery point: at an index entry if it is right."""
    fresh = SegmentScan(empty_index(base_offset), 0, base_offset)
    if recovery_point <= base_offset:
        return fresh
    try:
        index = read_active_index(folder.stem(base_offset), base_offset, folder.sizes[base_offset])
        index.check_order()
        position = index.floor(recovery_point - 1)
        header = _header_at(folder.stem(base_offset) + layout.LOG_SUFFIX, position)
    except EmptyIndexError as error:
        path, reason = folder.stem(base_offset), str(error)
        logger.debug("segment_scanned", _SCANNING, path=path, reason=reason)
        return fresh
    except DamagedIndexError as error:
        path, reason = folder.stem(base_offset), str(error)
        logger.info("segment_scanned", _SCANNING, path=path, reason=reason)
        return fresh
    first_offset, length, _, magic, _, delta, _ = layout.BATCH_SCAN.unpack(header)
    if not (
        position
        and magic == layout.BATCH_MAGIC
        and length >= layout.MIN_BATCH_LENGTH
        and base_offset <= first_offset <= first_offset + delta < recovery_point
    ):
        return fresh
    index.cut(position, first_offset)
    last = index.last_offset_entry()
    index.bytes_since_entry = position - (last[1] if last else 0)
    return SegmentScan(index, position, first_offset)


def _header_at(path: str, position: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        header = os.pread(fd, layout.BATCH_SCAN.size, position)
    finally:
        os.close(fd)
    if len(header) != layout.BATCH_SCAN.size:
        raise DamagedIndexError(f"no batch at {position}")
    return header


class Trust(NamedTuple):
    """How much of a folder is believed."""

    checked_from: int  # batches below are not looked at
    synced_offset: int  # everything below was on disk
    log_start: int


class Suspicion(NamedTuple):
    """Why a partition's files are not to be trusted before they are checked."""

    sync_has_failed: bool = False
    # Where something was wrong in what is else believed without a look; None if nothing was.
    checked_from: int | None = None
    reached: int = 0  # the log's end when that was found

    def trust(self, recovery_point: int, log_start: int) -> Trust:
        """What is believed all the same."""
        checked_from = recovery_point if self.checked_from is None else self.checked_from
        return Trust(checked_from, max(recovery_point, self.reached), log_start)


def recover(
    path: str, trust: Trust, interval_bytes: int, cut: Cut, pause: Pause = never_pause
) -> int:
    """Checks a partition's folder after an unclean stop and repairs it; returns the log's end.

    DamagedError if what was on disk is not there any more.
    """
    folder = Folder(path)
    epochs = LeaderEpochs(path)
    bases = list(folder.sizes)
    first = max(bisect_right(bases, trust.checked_from) - 1, 0)
    end_offset = bases[first] if bases else trust.log_start
    for number in range(first, len(bases)):
        base_offset = bases[number]
        segment_path = folder.stem(base_offset) + layout.LOG_SUFFIX
        if base_offset < end_offset:
            flaw = SEGMENTS_OVERLAP % {"end_offset": end_offset}
            _check_loss(segment_path, 0, base_offset, flaw, trust)
            logger.error("segment_damaged", "%(path)s: %(reason)s", path=segment_path, reason=flaw)
            _remove_from(folder, bases[number:], end_offset)
            break
        if base_offset > end_offset and number > first:
            logger.warning(
                "segment_missing",
                SEGMENT_MISSING,
                path=segment_path,
                offset=base_offset,
                end_offset=end_offset,
            )
        checked_from = trust.checked_from if number == first else base_offset
        scan = _scan(folder, base_offset, checked_from, interval_bytes, pause)
        end_offset = scan.end_offset
        if scan.flaw is not None:
            _check_loss(segment_path, scan.valid_bytes, end_offset, scan.flaw, trust)
            _cut_off(segment_path, scan, cut)
            folder.changed = True
        scan.index.add_time_entry()
        scan.index.write(folder.stem(base_offset))
        epochs.assign_found(scan.epochs)
        if scan.flaw is not None:
            _remove_from(folder, bases[number + 1 :], end_offset)
            break
    if end_offset < trust.synced_offset:
        raise DamagedError(_lost(path, f"it ends at offset {end_offset}", trust))
    if end_offset < trust.log_start:
        logger.warning(
            "log_begun_anew",
            "%(path)s ends at %(end_offset)d, below its start %(start_offset)d: beginning anew there",
            path=path,
            end_offset=end_offset,
            start_offset=trust.log_start,
        )
        for base_offset in list(folder.sizes):
            folder.remove_segment(base_offset)
        end_offset = trust.log_start
    epochs.cut_end(end_offset, max(trust.log_start, min(folder.sizes, default=0)))
    _repair_txn_indexes(folder, end_offset)
    folder.remove_snapshots_above(end_offset)
    if folder.changed:
        checkpoint_files.sync_path(path)
    return end_offset


def _scan(
    folder: Folder, base_offset: int, checked_from: int, interval_bytes: int, pause: Pause
) -> SegmentScan:
    path = folder.stem(base_offset) + layout.LOG_SUFFIX
    scan = _scan_start(folder, base_offset, checked_from)
    start = scan.valid_bytes
    scan_file(path, scan, interval_bytes, check_crc, pause)
    if scan.flaw is not None and start and scan.valid_bytes == start:
        # The index led to something that is no batch, although it was flushed: trust nothing.
        scan = SegmentScan(empty_index(base_offset), 0, base_offset)
        scan_file(path, scan, interval_bytes, check_crc, pause)
    return scan


def _check_loss(path: str, position: int, end_offset: int, flaw: str, trust: Trust) -> None:
    """DamagedError if a cut there would take what was on disk."""
    if end_offset < trust.synced_offset:
        found = f"at position {position}, offset {end_offset}: {flaw}"
        raise DamagedError(_lost(path, found, trust))


def _lost(path: str, found: str, trust: Trust) -> str:
    return (
        f"{path} is damaged: {found}, although everything below offset {trust.synced_offset} was on "
        "disk. Nothing was changed. Put back what is missing from a copy, or, to go on without it, "
        f"stop the broker and remove the partition's line from {layout.RECOVERY_POINTS_FILE}"
    )


def _cut_off(path: str, scan: SegmentScan, cut: Cut) -> None:
    """Cuts a segment where it stops being good; whole batches behind that are kept aside."""
    kept = "no whole batch is among them"
    if whole_batch_position(path, scan.valid_bytes, scan.end_offset) is not None:
        kept = f"they are kept as {keep_aside(path, scan.valid_bytes)}"
    logger.warning(
        "segment_cut",
        "%(path)s: cutting off %(bytes)d bytes at position %(position)d, offset %(end_offset)d "
        "(%(reason)s): %(kept)s",
        path=path,
        bytes=max(scan.size_bytes - scan.valid_bytes, 0),
        position=scan.valid_bytes,
        end_offset=scan.end_offset,
        reason=scan.flaw,
        kept=kept,
    )
    cut(path, scan.valid_bytes)


def _remove_from(folder: Folder, bases: Sequence[int], end_offset: int) -> None:
    """Removes segments behind the new end; those with whole batches are kept aside."""
    for base_offset in bases:
        path = folder.stem(base_offset) + layout.LOG_SUFFIX
        kept = "no whole batch is in it"
        if whole_batch_position(path, 0, end_offset) is not None:
            kept = f"its content is kept as {keep_aside(path, 0)}"
        logger.warning(
            "segment_removed",
            "%(path)s: removing %(bytes)d bytes: %(kept)s",
            path=path,
            bytes=folder.sizes[base_offset],
            kept=kept,
        )
        folder.remove_segment(base_offset)


def _repair_txn_indexes(folder: Folder, end_offset: int) -> None:
    """Cuts entries that cannot be right; the replay that finds them again has to look that far back."""
    noted = dict(folder.txn_checksums)
    for base_offset, data in _txn_indexes(folder):
        good_bytes = _sound_bytes(folder, base_offset, data, end_offset)
        if good_bytes == len(data) or not noted.get(base_offset, Checksum(0, 0)).fits(data):
            continue  # one that is not what was written is removed by the claim
        path = folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX
        text = "%(path)s: cutting it to %(bytes)d bytes"
        logger.warning("index_cut", text, path=path, bytes=good_bytes)
        noted.pop(base_offset, None)
        folder.remove_snapshots_above(base_offset)
        cut_in_place(path, good_bytes)
    if noted != folder.txn_checksums:
        path = os.path.join(folder.path, layout.TXN_CHECKSUMS_FILE)
        checkpoint_files.write_checksums(path, noted)


def _txn_indexes(folder: Folder) -> Iterator[tuple[int, bytes]]:
    """The content of the transaction indexes, by base offset."""
    for base_offset in folder.txn_indexes:
        yield base_offset, _txn_index(folder, base_offset)


def _txn_index(folder: Folder, base_offset: int) -> bytes:
    path = folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX
    return checkpoint_files.read_small_file(path) or b""


def _sound_bytes(folder: Folder, base_offset: int, data: bytes, end_offset: int) -> int:
    return sound_bytes(data, base_offset, folder.segment_end(base_offset, end_offset))


def check_txn_indexes(folder: Folder, end_offset: int) -> dict[int, Checksum]:
    """The checksums of the transaction indexes; UntrustworthyError if one does not fit its segment."""
    checksums = {}
    for base_offset, data in _txn_indexes(folder):
        good_bytes = _sound_bytes(folder, base_offset, data, end_offset)
        if good_bytes < len(data):
            path = folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX
            raise UntrustworthyError(f"{path} at {good_bytes}: no entry of this segment")
        checksums[base_offset] = Checksum(len(data), crc32c(data))
    return checksums


def remove_damaged_txn_indexes(folder: Folder) -> None:
    """Removes transaction indexes that are not what was written; the replay of their segments makes them anew.

    They are small, and in the memory of the system: `check_txn_indexes` reads them too.
    """
    damaged = [
        base_offset
        for base_offset, noted in folder.txn_checksums.items()
        if base_offset in folder.sizes and not noted.fits(_txn_index(folder, base_offset))
    ]
    if not damaged:
        return
    logger.warning(
        "transaction_index_damaged",
        "%(path)s: %(segments)d transaction index(es) are missing or damaged: reading the log from offset "
        "%(offset)d on to make them anew",
        path=folder.path,
        segments=len(damaged),
        offset=min(damaged),
    )
    # First: a snapshot without the index on which it relies would be trusted after a crash.
    folder.remove_snapshots_above(min(damaged))
    for base_offset in damaged:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX)
    folder.txn_indexes = [base for base in folder.txn_indexes if base not in damaged]


class UntrustworthyError(Exception):
    """A folder is not as a clean stop leaves it; it has to be recovered."""

    def __init__(self, text: str, checked_from: int = 0) -> None:
        super().__init__(text)
        self.checked_from = checked_from


class UnusableIndexError(UntrustworthyError):
    """The index of a large last segment is of no use: the segment has to be read."""


def load_active(folder: Folder, base_offset: int, interval_bytes: int) -> tuple[SegmentIndex, int]:
    """The indexes and the end of the last segment after a clean stop, from its last headers."""
    stem = folder.stem(base_offset)
    path = stem + layout.LOG_SUFFIX
    size_bytes = folder.sizes[base_offset]
    if not size_bytes:
        return empty_index(base_offset), base_offset
    scan = SegmentScan(empty_index(base_offset), 0, base_offset)
    index, last_position = None, 0
    try:
        index = read_active_index(stem, base_offset, size_bytes)
        last = index.last_offset_entry()
        if last is not None:
            last_position = last[1]
            first_offset = layout.BATCH_SCAN.unpack(_header_at(path, last_position))[0]
            if not base_offset <= first_offset <= last[0]:
                raise DamagedIndexError(f"no batch at {last_position}")
            scan = SegmentScan(empty_index(base_offset), last_position, first_offset)
            _check_last_time(path, index)
    except DamagedIndexError as error:
        text = "building the indexes of %(path)s anew: %(reason)s"
        logger.warning("index_rebuilt", text, path=path, reason=str(error))
        if size_bytes > READ_AT_ONCE_BYTES:
            raise UnusableIndexError(f"{path}: {error}", base_offset) from error
        index, last_position = None, 0
        scan = SegmentScan(empty_index(base_offset), 0, base_offset)
    scan_file(path, scan, interval_bytes, check_nothing)
    if scan.flaw is not None:
        raise UntrustworthyError(f"{path} at {scan.valid_bytes}: {scan.flaw}")
    if index is None or not last_position:
        return scan.index, scan.end_offset
    if index.last_time_entry().offset >= scan.end_offset:
        raise UntrustworthyError(f"{path} ends at {scan.end_offset}, its time index does not")
    if scan.index.latest.timestamp_ms > index.latest.timestamp_ms:
        index.latest = scan.index.latest
    index.bytes_since_entry = size_bytes - last_position
    return index, scan.end_offset


def _check_last_time(path: str, index: SegmentIndex) -> None:
    """Whether the batch that the last entry of the time index names has that timestamp."""
    last = index.last_time_entry()
    position = index.floor(last.offset)
    while True:
        first_offset, length, _, _, _, delta, timestamp_ms = layout.BATCH_SCAN.unpack(
            _header_at(path, position)
        )
        if length < layout.MIN_BATCH_LENGTH or first_offset > last.offset:
            raise DamagedIndexError(f"no batch with offset {last.offset} at {position}")
        if first_offset + delta >= last.offset:
            break
        position += layout.BATCH_PREFIX_BYTES + length
    # Without an entry `last` names the first batch, and no timestamp.
    if timestamp_ms != last.timestamp_ms:
        raise DamagedIndexError(f"the batch at {position} is not of {last.timestamp_ms}")


def rewrite(path: str, recovery_point: int) -> None:
    """Brings everything from the recovery point on to disk although a sync has failed."""
    folder = Folder(path)
    bases = list(folder.sizes)
    for base_offset in bases[max(bisect_right(bases, recovery_point) - 1, 0) :]:
        write_again(folder.stem(base_offset) + layout.LOG_SUFFIX, 0)
