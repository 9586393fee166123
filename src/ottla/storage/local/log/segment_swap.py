"""Replacing segment files, so that a crash at any point leaves the old segments or the new one.

The new segment is written under names that end in `.cleaned`. Then, as in Kafka:

| step | what is there afterwards | a start after a crash |
|---|---|---|
| 1. write and sync the `.cleaned` files | the old segments | removes them: undone |
| 2. rename the indexes to `.swap` | the old segments | removes them: undone |
| 3. rename the log to `.swap`, sync the folder | both | does steps 4 and 5: done |
| 4. rename the old files to `.deleted` | perhaps some old ones | does the rest of 4, and 5: done |
| 5. rename the indexes, then the log, to their last names | the new segment | does the rest: done |

Only the log's `.swap` decides, and the indexes follow it: a missing index is rebuilt.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Final

from ottla.events import EventLog
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.log.index import empty_index
from ottla.storage.local.recovery.scan import SegmentScan, check_crc, scan_file

logger = EventLog(__name__)

_INDEXES: Final = (layout.INDEX_SUFFIX, layout.TIME_INDEX_SUFFIX)


def remove_cleaned(stem: str) -> None:
    """Undoes step 1."""
    for suffix in (*_INDEXES, layout.LOG_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(stem + suffix + layout.CLEANED_SUFFIX)


def show(stem: str) -> None:
    """Steps 2 and 3: after them a start completes the swap."""
    for suffix in (*_INDEXES, layout.LOG_SUFFIX):
        path = stem + suffix
        os.rename(path + layout.CLEANED_SUFFIX, path + layout.SWAP_SUFFIX)
    checkpoint_files.sync_path(os.path.dirname(stem))


def retire(stem: str) -> list[str]:
    """Renames the files of a segment to `.deleted`; returns their paths, to be removed later."""
    retired = []
    for suffix in layout.SEGMENT_SUFFIXES:
        path = stem + suffix
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, path + layout.DELETED_SUFFIX)
            retired.append(path + layout.DELETED_SUFFIX)
    return retired


def settle(stem: str) -> None:
    """Step 5."""
    for suffix in (*_INDEXES, layout.LOG_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            os.rename(stem + suffix + layout.SWAP_SUFFIX, stem + suffix)


def replace(stem: str, old_stems: Sequence[str]) -> list[str]:
    """Steps 2 to 5; returns the files that are no longer used."""
    show(stem)
    retired = [path for old_stem in old_stems for path in retire(old_stem)]
    settle(stem)
    checkpoint_files.sync_path(os.path.dirname(stem))
    return retired


def finish(folder: str) -> None:
    """Completes or undoes a swap that a crash interrupted; no `.cleaned` or `.swap` file is left."""
    names = os.listdir(folder)
    cleaned = dict(_names_ending(names, layout.CLEANED_SUFFIX))
    swaps = dict(_names_ending(names, layout.SWAP_SUFFIX))
    if not cleaned and not swaps:
        return
    first_cleaned = min(offset for offset, _ in cleaned.values()) if cleaned else None
    logs = sorted(offset for offset, suffix in swaps.values() if suffix == layout.LOG_SUFFIX)
    for base_offset in logs:
        stem = os.path.join(folder, layout.offset_file_name(base_offset, ""))
        path = stem + layout.LOG_SUFFIX
        # Kafka renames the log before the indexes: then the swap is incomplete, and the old files are all there.
        if first_cleaned is not None and first_cleaned <= base_offset and os.path.exists(path):
            os.unlink(path + layout.SWAP_SUFFIX)
            continue
        scan = SegmentScan(empty_index(base_offset), 0, base_offset)
        scan_file(path + layout.SWAP_SUFFIX, scan, 1 << 30, check_crc)
        # The log of this name is the first to be retired: while it is there, all the old segments are.
        if scan.flaw is not None and os.path.exists(path):
            logger.error(
                "replacement_damaged",
                "%(path)s: its replacement is damaged, the old segments stay: %(reason)s",
                path=stem,
                reason=scan.flaw,
            )
            os.unlink(path + layout.SWAP_SUFFIX)
            continue
        text = "%(path)s: completing its replacement"
        logger.info("replacement_completed", text, path=stem)
        _complete(folder, stem, base_offset, scan.end_offset)
    for name in (*cleaned, *swaps):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    checkpoint_files.sync_path(folder)


def _complete(folder: str, stem: str, base_offset: int, end_offset: int) -> None:
    """Steps 4 and 5, as far as they were not done before."""
    for name in os.listdir(folder):
        parsed = layout.parse_offset_file_name(name)
        if parsed is None or parsed[1] not in layout.SEGMENT_SUFFIXES:
            continue
        # Files with this base are replaced by the new ones; an index without a `.swap` is a new one already.
        if base_offset < parsed[0] < end_offset:
            os.unlink(os.path.join(folder, name))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(stem + layout.TXN_INDEX_SUFFIX)
    settle(stem)


def _names_ending(names: Sequence[str], ending: str) -> Iterator[tuple[str, tuple[int, str]]]:
    for name in names:
        if name.endswith(ending):
            parsed = layout.parse_offset_file_name(name.removesuffix(ending))
            if parsed is not None:
                yield name, parsed
