"""Transaction indexes that do not fit their segments or their checksums (ADR 0037)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from ottla.events import EventLog
from ottla.records.crc import crc32c
from ottla.storage.local.folder import checkpoint_files, layout
from ottla.storage.local.folder.checkpoint_files import Checksum
from ottla.storage.local.log.transaction_index import sound_bytes
from ottla.storage.local.recovery.file_cuts import cut_in_place
from ottla.storage.local.recovery.partition_folder import PartitionFolder, UntrustworthyError

logger = EventLog(__name__)


def repair_txn_indexes(folder: PartitionFolder, end_offset: int) -> None:
    """Cuts off entries that do not fit their segment; the next replay adds them again, without the snapshots behind."""
    noted = dict(folder.txn_checksums)
    for base_offset, data in _txn_indexes(folder):
        good_bytes = _sound_bytes(folder, base_offset, data, end_offset)
        if good_bytes == len(data) or not noted.get(base_offset, Checksum(0, 0)).fits(data):
            continue  # the claim removes a file with a wrong checksum
        path = folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX
        text = "%(path)s: cutting it to %(bytes)d bytes"
        logger.warning("index_cut", text, path=path, bytes=good_bytes)
        noted.pop(base_offset, None)
        folder.remove_snapshots_above(base_offset)
        cut_in_place(path, good_bytes)
    if noted != folder.txn_checksums:
        path = os.path.join(folder.path, layout.TXN_CHECKSUMS_FILE)
        checkpoint_files.write_checksums(path, noted)


def _txn_indexes(folder: PartitionFolder) -> Iterator[tuple[int, bytes]]:
    """Base offset and content of each transaction index."""
    for base_offset in folder.txn_indexes:
        yield base_offset, _txn_index(folder, base_offset)


def _txn_index(folder: PartitionFolder, base_offset: int) -> bytes:
    path = folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX
    return checkpoint_files.read_small_file(path) or b""


def _sound_bytes(folder: PartitionFolder, base_offset: int, data: bytes, end_offset: int) -> int:
    return sound_bytes(data, base_offset, folder.segment_end(base_offset, end_offset))


def check_txn_indexes(folder: PartitionFolder, end_offset: int) -> dict[int, Checksum]:
    """The checksums of the transaction indexes; UntrustworthyError if one does not fit its segment."""
    checksums = {}
    for base_offset, data in _txn_indexes(folder):
        good_bytes = _sound_bytes(folder, base_offset, data, end_offset)
        if good_bytes < len(data):
            path = folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX
            raise UntrustworthyError(f"{path} at {good_bytes}: no entry of this segment")
        checksums[base_offset] = Checksum(len(data), crc32c(data))
    return checksums


def remove_damaged_txn_indexes(folder: PartitionFolder) -> None:
    """Removes transaction indexes with a wrong checksum; the replay of their segments writes them again.

    Reading all of them is cheap: they are small, and `check_txn_indexes` reads them too.
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
    # Snapshots first: after a crash in between, a snapshot without its index would be trusted.
    folder.remove_snapshots_above(min(damaged))
    for base_offset in damaged:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder.stem(base_offset) + layout.TXN_INDEX_SUFFIX)
    folder.txn_indexes = [base for base in folder.txn_indexes if base not in damaged]
