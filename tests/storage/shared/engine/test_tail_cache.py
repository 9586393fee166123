"""The limit of the newest batches in memory counts what blocks take, and forgotten logs leave nothing behind."""

from __future__ import annotations

from tests.storage.batches import make_batch

from ottla.storage.shared.read.block import Block
from ottla.storage.shared.read.tail_cache import BLOCK_OVERHEAD_BYTES, LogTail, TailCache


def add(cache: TailCache, tail: LogTail, base_offset: int, *, is_settled: bool = True) -> Block:
    batch = make_batch(base_offset)
    block = Block(base_offset, base_offset)
    cache.add(tail, block)
    block.is_settled = is_settled
    block.add(batch.data, [batch.extent])
    cache.grown(len(batch.data))
    return block


def test_small_blocks_count_with_their_overhead() -> None:
    cache, tail = TailCache(100 * BLOCK_OVERHEAD_BYTES), LogTail()
    for offset in range(1000):
        add(cache, tail, offset)
    assert 80 < len(tail.blocks) < 100
    cache.forget(tail, 950)
    assert len(tail.blocks) == 50
    cache.forget_all(tail)
    assert cache.size_bytes == 0


def test_forgotten_logs_leave_nothing_in_the_queue() -> None:
    cache, kept = TailCache(1 << 30), LogTail()
    for offset in range(10):
        add(cache, kept, offset)
    for _ in range(100):
        tail = LogTail()
        for offset in range(10):
            add(cache, tail, offset)
        cache.forget_all(tail)
        assert len(cache._blocks) < 150
    cache.forget(kept, 5)
    assert [block.base_offset for block in kept.blocks] == [5, 6, 7, 8, 9]
    cache.forget_all(kept)
    assert cache.size_bytes == 0


def test_a_forgotten_block_that_was_never_settled_keeps_no_other_in_memory() -> None:
    cache, lost, kept = TailCache(10 * BLOCK_OVERHEAD_BYTES), LogTail(), LogTail()
    add(cache, lost, 0, is_settled=False)
    cache.forget_all(lost)
    for offset in range(100):
        add(cache, kept, offset)
    assert len(kept.blocks) < 10
    assert cache.size_bytes <= 10 * BLOCK_OVERHEAD_BYTES
