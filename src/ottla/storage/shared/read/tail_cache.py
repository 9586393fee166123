"""The newest batches of all partitions of the process, from which reads are answered at once."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.ports import Buffer
from ottla.storage.shared.read.block import Block

# What the objects of a block take beside its batches, of which a small append has 100 bytes.
BLOCK_OVERHEAD_BYTES: Final = 800
# Entries of dropped blocks that are left in the queue at least until it is cleaned.
_MIN_DEAD: Final = 64


class Dropped(NamedTuple):
    """Blocks that a tail has forgotten, and the bytes of their batches."""

    block_count: int
    size_bytes: int


class LogTail:
    """The newest batches of one log: blocks without a hole between them, up to its end."""

    __slots__ = ("_bases", "blocks")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._bases: list[int] = []

    def begins_at_or_below(self, offset: int) -> bool:
        return bool(self._bases) and self._bases[0] <= offset

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        self._bases.append(block.base_offset)

    def read(self, offset: int, max_bytes: int, end_offset: int) -> Buffer:
        """As Log.read; `begins_at_or_below(offset)` holds."""
        number = bisect_right(self._bases, offset) - 1
        parts: list[Buffer] = []
        room_bytes = max_bytes
        while number < len(self._bases) and self._bases[number] < end_offset:
            block = self.blocks[number]
            data = block.read(offset, room_bytes, end_offset)
            if parts and len(data) > room_bytes:
                break
            if data:
                parts.append(data)
                room_bytes -= len(data)
            # What did not fit must not be left out between two blocks.
            if room_bytes <= 0 or len(data) < block.bytes_between(offset, end_offset):
                break
            number += 1
        if len(parts) == 1:
            return parts[0]
        return b"".join(parts)

    def blocks_from(self, offset: int) -> Iterator[Block]:
        number = max(bisect_right(self._bases, offset) - 1, 0)
        yield from self.blocks[number:]

    def drop_below(self, offset: int) -> Dropped:
        """Forgets blocks that end at or below an offset."""
        count = 0
        for block in self.blocks:
            if block.end_offset > offset or not block.is_settled:
                break
            count += 1
        size_bytes = 0
        for block in self.blocks[:count]:
            size_bytes += block.size_bytes
            block.forget()
        del self.blocks[:count], self._bases[:count]
        return Dropped(count, size_bytes)

    def drop_all(self) -> Dropped:
        """Forgets everything; what is being written keeps its bytes."""
        dropped = Dropped(len(self.blocks), sum(block.size_bytes for block in self.blocks))
        for block in self.blocks:
            if block.is_settled:
                block.forget()
        self.blocks.clear()
        self._bases.clear()
        return dropped


class TailCache:
    """The tails of all logs, within a limit: the oldest block goes first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # By age. Dropped blocks stay for a while: `_dead` counts them.
        self._blocks: deque[tuple[LogTail, Block]] = deque()
        self._dead = 0
        self.size_bytes = 0

    def add(self, tail: LogTail, block: Block) -> None:
        """Adds a new last block to a tail, empty as yet."""
        tail.add(block)
        self._blocks.append((tail, block))
        self.size_bytes += BLOCK_OVERHEAD_BYTES

    def grown(self, size_bytes: int) -> None:
        """The last block of a tail has grown."""
        self.size_bytes += size_bytes
        while self.size_bytes > self._max_bytes and self._blocks:
            tail, block = self._blocks[0]
            if not tail.begins_at_or_below(block.base_offset):
                self._blocks.popleft()
                self._dead -= 1
                continue
            if not block.is_settled:
                break
            self._blocks.popleft()
            # All above a block stay.
            self._note_dropped(tail.drop_below(block.end_offset))
            self._dead -= 1  # this one is not in the queue any more

    def forget(self, tail: LogTail, below_offset: int) -> None:
        """Forgets a part of a tail: it was trimmed, or is compacted now."""
        self._note_dropped(tail.drop_below(below_offset))
        self._clean()

    def forget_all(self, tail: LogTail) -> None:
        """The claim of a log is over."""
        self._note_dropped(tail.drop_all())
        self._clean()

    def _note_dropped(self, dropped: Dropped) -> None:
        self.size_bytes -= dropped.size_bytes + dropped.block_count * BLOCK_OVERHEAD_BYTES
        self._dead += dropped.block_count

    def _clean(self) -> None:
        """Removes dropped blocks from the queue when they are half of it, so that each costs little."""
        if self._dead > max(_MIN_DEAD, len(self._blocks) // 2):
            self._blocks = deque(
                (tail, block)
                for tail, block in self._blocks
                if tail.begins_at_or_below(block.base_offset)
            )
            self._dead = 0
