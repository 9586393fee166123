"""The recovery of a partition's folder after an unclean stop or a failed sync.

Everything from the recovery point on is checked, and the log is cut at the first invalid batch: a torn write. If whole
batches follow behind the cut, recovery copies those bytes to a file beside the segment. Everything below the recovery
point was on disk: a batch that is missing or invalid there is damage, and recovery changes no file (ADR 0009).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.events import EventLog
from ottla.ports import DamagedError
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.log.index import (
    DamagedIndexError,
    EmptyIndexError,
    empty_index,
    read_active_index,
)
from ottla.storage.local.log.leader_epochs import LeaderEpochs
from ottla.storage.local.recovery.disk_trouble import (
    SEGMENT_MISSING,
    SEGMENTS_OVERLAP,
    keep_aside,
    whole_batch_position,
)
from ottla.storage.local.recovery.file_cuts import Cut, write_again
from ottla.storage.local.recovery.partition_folder import PartitionFolder, open_folder
from ottla.storage.local.recovery.scan import (
    Pause,
    SegmentScan,
    check_crc,
    never_pause,
    read_header,
    scan_file,
)
from ottla.storage.local.recovery.txn_index_checks import repair_txn_indexes

logger = EventLog(__name__)

_SCANNING: Final = "%(path)s: scanning it from the beginning: %(reason)s"


class Trust(NamedTuple):
    """Which offsets of a log are checked, and below which a loss is damage."""

    checked_from: int  # batches below are not checked
    synced_offset: int  # everything below was on disk
    log_start: int


class Suspicion(NamedTuple):
    """Why a partition's files have to be checked before they are used."""

    sync_has_failed: bool = False
    # The check begins at this offset, because damage was found behind it; None: at the recovery point.
    checked_from: int | None = None
    reached: int = (
        0  # the end of the log when the damage was found: everything below must still be there
    )

    def trust(self, recovery_point: int, log_start: int) -> Trust:
        """What the check of these files has to cover."""
        checked_from = recovery_point if self.checked_from is None else self.checked_from
        return Trust(checked_from, max(recovery_point, self.reached), log_start)


def recover(
    path: str, trust: Trust, interval_bytes: int, cut: Cut, pause: Pause = never_pause
) -> int:
    """Checks a partition's folder after an unclean stop and repairs it; returns the log's end.

    DamagedError if batches that were on disk are missing or invalid.
    """
    folder = open_folder(path)
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
    repair_txn_indexes(folder, end_offset)
    folder.remove_snapshots_above(end_offset)
    if folder.changed:
        checkpoint_files.sync_path(path)
    return end_offset


def _scan_start(folder: PartitionFolder, base_offset: int, recovery_point: int) -> SegmentScan:
    """Where the check of a segment begins: at an index entry below `recovery_point`, if the index is valid."""
    fresh = SegmentScan(empty_index(base_offset), 0, base_offset)
    if recovery_point <= base_offset:
        return fresh
    try:
        index = read_active_index(folder.stem(base_offset), base_offset, folder.sizes[base_offset])
        index.check_order()
        position = index.floor(recovery_point - 1)
        header = read_header(folder.stem(base_offset) + layout.LOG_SUFFIX, position)
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


def _scan(
    folder: PartitionFolder, base_offset: int, checked_from: int, interval_bytes: int, pause: Pause
) -> SegmentScan:
    path = folder.stem(base_offset) + layout.LOG_SUFFIX
    scan = _scan_start(folder, base_offset, checked_from)
    start = scan.valid_bytes
    scan_file(path, scan, interval_bytes, check_crc, pause)
    if scan.flaw is not None and start and scan.valid_bytes == start:
        # The index leads to bytes that are no batch: scan the whole segment without it.
        scan = SegmentScan(empty_index(base_offset), 0, base_offset)
        scan_file(path, scan, interval_bytes, check_crc, pause)
    return scan


def _check_loss(path: str, position: int, end_offset: int, flaw: str, trust: Trust) -> None:
    """DamagedError if a cut at `end_offset` would remove batches that were on disk."""
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
    """Cuts a segment at its first invalid batch; if whole batches follow, their bytes are kept in another file."""
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


def _remove_from(folder: PartitionFolder, bases: Sequence[int], end_offset: int) -> None:
    """Removes the segments behind the new end of the log; those with whole batches are copied to other files first."""
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


def rewrite(path: str, recovery_point: int) -> None:
    """Writes everything from the recovery point on to the disk again, after a sync has failed."""
    folder = open_folder(path)
    bases = list(folder.sizes)
    for base_offset in bases[max(bisect_right(bases, recovery_point) - 1, 0) :]:
        write_again(folder.stem(base_offset) + layout.LOG_SUFFIX, 0)
