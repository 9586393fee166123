"""Loading the last segment after a clean stop: only the headers behind the last index entry are read."""

from __future__ import annotations

from ottla.events import EventLog
from ottla.storage.local.folder import layout
from ottla.storage.local.log.index import (
    DamagedIndexError,
    SegmentIndex,
    empty_index,
    read_active_index,
)
from ottla.storage.local.recovery.partition_folder import (
    PartitionFolder,
    UntrustworthyError,
    UnusableIndexError,
)
from ottla.storage.local.recovery.scan import (
    READ_AT_ONCE_BYTES,
    SegmentScan,
    check_nothing,
    read_header,
    scan_file,
)

logger = EventLog(__name__)


def load_active(
    folder: PartitionFolder, base_offset: int, interval_bytes: int
) -> tuple[SegmentIndex, int]:
    """The indexes of the last segment and the end of the log; UntrustworthyError if they do not fit."""
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
            first_offset = layout.BATCH_SCAN.unpack(read_header(path, last_position))[0]
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
    """DamagedIndexError unless the batch of the last time index entry has the timestamp of the entry."""
    last = index.last_time_entry()
    position = index.floor(last.offset)
    while True:
        first_offset, length, _, _, _, delta, timestamp_ms = layout.BATCH_SCAN.unpack(
            read_header(path, position)
        )
        if length < layout.MIN_BATCH_LENGTH or first_offset > last.offset:
            raise DamagedIndexError(f"no batch with offset {last.offset} at {position}")
        if first_offset + delta >= last.offset:
            break
        position += layout.BATCH_PREFIX_BYTES + length
    # If the time index is empty, `last` is the first batch, without a timestamp.
    if timestamp_ms != last.timestamp_ms:
        raise DamagedIndexError(f"the batch at {position} is not of {last.timestamp_ms}")
