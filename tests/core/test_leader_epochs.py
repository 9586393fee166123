from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.leader_epochs import UNDEFINED, EpochEnd, EpochStart, end_of_epoch, epoch_at

EPOCHS = [EpochStart(2, 0), EpochStart(4, 10), EpochStart(7, 30)]
CURRENT, END = 9, 50


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        pytest.param(-1, UNDEFINED, id="no-epoch"),
        pytest.param(1, EpochEnd(1, 0), id="older-than-the-log"),
        pytest.param(2, EpochEnd(2, 10), id="ended-where-the-next-began"),
        pytest.param(3, EpochEnd(2, 10), id="wrote-nothing"),
        pytest.param(4, EpochEnd(4, 30), id="in-the-middle"),
        pytest.param(7, EpochEnd(7, 50), id="last-that-wrote"),
        pytest.param(8, EpochEnd(7, 50), id="wrote-nothing-before-the-current"),
        pytest.param(9, EpochEnd(9, 50), id="current"),
        pytest.param(10, UNDEFINED, id="not-reached"),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(requested: int, expected: EpochEnd) -> None:
    assert end_of_epoch(EPOCHS, CURRENT, requested, END) == expected


def test_an_older_epoch_of_an_empty_log_ends_at_its_end() -> None:
    """Kafka enters the current epoch when leadership begins, so that it is the next one."""
    assert end_of_epoch([], CURRENT, 3, 0) == EpochEnd(3, 0)


starts = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=6, unique_by=lambda pair: pair[0]
)


@given(starts, st.integers(0, 3), st.integers(-1, 25), st.integers(0, 10))
def test_answers_are_those_of_kafkas_epoch_cache(
    made: list[tuple[int, int]], ahead: int, requested: int, more: int
) -> None:
    """LeaderEpochFileCache.endOffsetFor, where the leader's own epoch is always in the cache."""
    epochs, offset = [], 0
    for epoch, size in sorted(made):
        epochs.append(EpochStart(epoch, offset))
        offset += size + 1
    end_offset = offset + more
    current = (epochs[-1].epoch if epochs else 0) + ahead
    cache = {entry.epoch: entry.start_offset for entry in epochs}
    cache.setdefault(current, end_offset)
    higher = [epoch for epoch in sorted(cache) if epoch > requested]
    floor = [epoch for epoch in sorted(cache) if epoch <= requested]
    if requested == -1:
        expected = UNDEFINED
    elif requested == max(cache):
        expected = EpochEnd(requested, end_offset)
    elif not higher:
        expected = UNDEFINED
    else:
        expected = EpochEnd(floor[-1] if floor else requested, cache[higher[0]])
    assert end_of_epoch(epochs, current, requested, end_offset) == expected


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, 2), (9, 2), (10, 4), (29, 4), (30, 7), (1000, 7)]
)
def test_a_record_has_the_epoch_under_which_it_was_written(offset: int, epoch: int) -> None:
    assert epoch_at(EPOCHS, offset) == epoch


def test_offsets_before_every_epoch_have_none() -> None:
    assert epoch_at([EpochStart(3, 5)], 4) == -1
    assert epoch_at([], 0) == -1
