"""What every engine guarantees of the aborted transactions that it keeps."""

from __future__ import annotations

from tests.storage.batches import fill, ref_of

from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.ports import LogStore, PartitionLog

CONFIG = TopicConfig()


def span(last_offset: int, first_offset: int = 0) -> AbortedSpan:
    return AbortedSpan(7, first_offset, last_offset, last_offset + 1)


def three_segments(store: LogStore) -> PartitionLog:
    """Segments from 0, 10 and 20 on."""
    log = store.claim(ref_of(), CONFIG)
    for _ in range(2):
        fill(log, 10)
        log.roll()
    fill(log, 10)
    return log


def test_a_new_log_has_no_aborted_transactions(store: LogStore) -> None:
    assert list(store.claim(ref_of(), CONFIG).aborted(0)) == []


def test_spans_come_back_in_order_from_the_segment_of_an_offset_on(store: LogStore) -> None:
    log = three_segments(store)
    spans = [span(3), span(9, 4), span(10, 2), span(25, 11), span(29, 28)]
    for each in spans:
        log.note_aborted(each)
    assert list(log.aborted(0)) == spans
    for offset in range(31):
        found = list(log.aborted(offset))
        assert found == spans[len(spans) - len(found) :]
        assert set(found) >= {each for each in spans if each.last_offset >= offset}


def test_a_span_that_is_noted_again_is_kept_once(store: LogStore) -> None:
    log = three_segments(store)
    spans = [span(3), span(9, 4), span(25, 11)]
    for _ in range(2):
        for each in spans:
            log.note_aborted(each)
    assert list(log.aborted(0)) == spans


def test_an_older_segment_still_takes_what_it_lacks(store: LogStore) -> None:
    """A replay from an old snapshot comes by there again."""
    log = three_segments(store)
    log.note_aborted(span(25, 11))
    log.note_aborted(span(3))
    log.note_aborted(span(9, 4))
    assert list(log.aborted(0)) == [span(3), span(9, 4), span(25, 11)]


def test_the_next_claim_finds_the_spans(store: LogStore) -> None:
    log = three_segments(store)
    log.note_aborted(span(3))
    log.note_aborted(span(25, 11))
    again = store.claim(ref_of(), CONFIG)
    assert list(again.aborted(0)) == [span(3), span(25, 11)]
    again.note_aborted(span(29, 28))
    again.close()
    last = store.claim(ref_of(), CONFIG)
    assert list(last.aborted(0)) == [span(3), span(25, 11), span(29, 28)]


def test_spans_go_with_their_segment(store: LogStore) -> None:
    log = three_segments(store)
    log.note_aborted(span(3))
    log.note_aborted(span(10, 2))
    log.note_aborted(span(25, 11))
    log.trim(10)
    assert list(log.aborted(0)) == [span(10, 2), span(25, 11)]
    log.trim(20)
    assert list(log.aborted(0)) == [span(25, 11)]
    assert list(store.claim(ref_of(), CONFIG).aborted(0)) == [span(25, 11)]
