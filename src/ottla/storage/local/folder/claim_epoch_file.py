"""The epoch counter of a worker's store; a folder with a catalog of its own counts in its journal."""

from __future__ import annotations

import os

from ottla.ports import StorageError
from ottla.records.crc import crc32c
from ottla.storage.local.folder import checkpoint_files


def encode_claim_epoch(epoch: int) -> bytes:
    """The content of the file: the epoch and its checksum."""
    return checkpoint_files.encode_checkpoint([f"{epoch} {crc32c(b'%d' % epoch)}"])


def decode_claim_epoch(data: bytes) -> int:
    """The epoch in the content of the file; ValueError if it is damaged."""
    lines = checkpoint_files.decode_checkpoint(data)
    if len(lines) != 1:
        raise ValueError(f"{len(lines)} entries instead of 1")
    epoch, checksum = (int(word) for word in lines[0].split())
    if epoch < 0 or checksum != crc32c(b"%d" % epoch):
        raise ValueError("the checksum is wrong")
    return epoch


class ClaimEpochFile:
    """Implements ClaimEpochs over a file of its own."""

    def __init__(self, path: str) -> None:
        self._path = path
        data = checkpoint_files.read_small_file(path)
        self.is_new = data is None
        try:
            self._epoch = 0 if data is None else decode_claim_epoch(data)
        except ValueError as error:
            # A lower epoch than clients know would hide the partitions from them.
            raise StorageError(
                f"{path} is damaged: {error}; restore it from a copy, or stop the broker and remove it: the next "
                "start counts on from far above"
            ) from error

    @property
    def epoch(self) -> int:
        return self._epoch

    def raise_epoch(self, epoch: int) -> None:
        if epoch <= self._epoch:
            return
        try:
            checkpoint_files.replace_file(self._path, encode_claim_epoch(epoch))
            checkpoint_files.sync_path(os.path.dirname(self._path))
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error}") from error
        self._epoch = epoch

    def close(self) -> None:
        """Nothing is open."""
