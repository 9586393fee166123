"""How far the logs of a store are clean, in Kafka's cleaner-offset-checkpoint."""

from __future__ import annotations

from ottla.ports import PartitionRef
from ottla.storage.local.folder import checkpoint_files

Key = tuple[str, int]


class CleanedOffsets:
    """One offset for each partition that was ever cleaned."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offsets = checkpoint_files.read_offsets(path)
        self._is_written = True

    def get(self, ref: PartitionRef) -> int | None:
        return self._offsets.get((ref.topic, ref.partition))

    def keep(self, ref: PartitionRef, offset: int) -> None:
        """Notes an offset, durably."""
        offsets = {**self._offsets, (ref.topic, ref.partition): offset}
        checkpoint_files.write_offsets(self._path, offsets)
        self._offsets = offsets
        self._is_written = True

    def cut_end(self, key: Key, end_offset: int) -> None:
        """A log was cut: what was clean above its end is gone."""
        if self._offsets.get(key, 0) > end_offset:
            self.forget(key)
            self.write()

    def forget(self, key: Key) -> None:
        """Drops the offset of a partition whose data is gone; `write` follows before another one gets its name."""
        if key in self._offsets:
            self._offsets = {
                other: offset for other, offset in self._offsets.items() if other != key
            }
            self._is_written = False

    def write(self) -> None:
        """Makes what was forgotten durable."""
        if not self._is_written:
            checkpoint_files.write_offsets(self._path, self._offsets)
            self._is_written = True
