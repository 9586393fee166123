"""Buffers that connections share: reused, of the size that is needed, and not too many."""

from __future__ import annotations

from ottla.broker.network.receive_buffers import MAX_SPARE_BYTES, SMALLEST_SPARE_BYTES, Buffers


def test_a_buffer_is_used_again() -> None:
    buffers = Buffers()
    first = buffers.take(900_000)
    assert len(first) >= 900_000
    buffers.give_back(first)
    assert buffers.take(910_000) is first
    assert buffers.take(910_000) is not first


def test_a_spare_buffer_that_is_too_small_stays() -> None:
    buffers = Buffers()
    small = buffers.take(SMALLEST_SPARE_BYTES)
    buffers.give_back(small)
    assert len(buffers.take(1 << 20)) >= 1 << 20
    assert buffers.take(SMALLEST_SPARE_BYTES) is small


def test_a_spare_buffer_is_given_only_if_it_is_large_enough() -> None:
    buffers = Buffers()
    assert buffers.take_spare(1) is None
    buffers.give_back(buffers.take(100_000))
    assert buffers.take_spare(1 << 20) is None
    spare = buffers.take_spare(100_000)
    assert spare is not None
    assert buffers.take_spare(100_000) is None


def test_small_and_surplus_buffers_are_not_kept() -> None:
    buffers = Buffers()
    tiny = buffers.take(10)
    buffers.give_back(tiny)
    assert buffers.take(10) is not tiny
    large = [buffers.take(MAX_SPARE_BYTES // 2) for _ in range(3)]
    for each in large:
        buffers.give_back(each)
    again = [buffers.take(MAX_SPARE_BYTES // 2) for _ in range(3)]
    assert [each in large for each in again].count(True) >= 2
    assert again[2] is not large[2]
