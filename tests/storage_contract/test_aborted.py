"""What every engine guarantees of the aborted transactions that it keeps."""

from __future__ import annotations

from collections.abc import Sequence

from tests.storage.batches import Batch, make_batch, ref_of
from tests.storage_contract.settled_store import in_one_turn

from ottla.config.topic import TopicConfig
from ottla.core.aborted import AbortedSpan
from ottla.ports import LogStore, PartitionLog

CONFIG = TopicConfig()


def span(last_offset: int, first_offset: int = 0) -> AbortedSpan:
    return AbortedSpan(7, first_offset, last_offset, last_offset + 1)


def append_noting(log: PartitionLog, batch: Batch, spans: Sequence[AbortedSpan]) -> None:
    """Appends a batch, and in the same turn notes the transactions that it ends."""

    def append(log: PartitionLog) -> object:
        settled = log.append(batch.data, [batch.extent], log.end_offset)
        for each in spans:
            log.note_aborted(each)
        return settled

    in_one_turn(log, append)


def three_segments(store: LogStore, spans: Sequence[AbortedSpan] = ()) -> PartitionLog:
    """Segments from 0, 10 and 20 on; each of the transactions is noted with the batch that ends it."""
    log = store.claim(ref_of(), CONFIG)
    for offset in range(30):
        if offset in (10, 20):
            log.roll()
        ended = [each for each in spans if each.last_offset == offset]
        append_noting(log, make_batch(offset, epoch=log.epoch), ended)
    return log


def test_a_new_log_has_no_aborted_transactions(store: LogStore) -> None:
    assert list(store.claim(ref_of(), CONFIG).aborted(0)) == []


def test_spans_come_back_in_order_from_the_segment_of_an_offset_on(store: LogStore) -> None:
    spans = [span(3), span(9, 4), span(10, 2), span(25, 11), span(29, 28)]
    log = three_segments(store, spans)
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
    three_segments(store, [span(3), span(25, 11)])
    again = store.claim(ref_of(), CONFIG)
    assert list(again.aborted(0)) == [span(3), span(25, 11)]
    append_noting(again, make_batch(30, epoch=again.epoch), [span(30, 28)])
    again.close()
    last = store.claim(ref_of(), CONFIG)
    assert list(last.aborted(0)) == [span(3), span(25, 11), span(30, 28)]


def test_spans_go_with_their_segment(store: LogStore) -> None:
    log = three_segments(store, [span(3), span(10, 2), span(25, 11)])
    log.trim(10)
    assert list(log.aborted(0)) == [span(10, 2), span(25, 11)]
    log.trim(20)
    assert list(log.aborted(0)) == [span(25, 11)]
    assert list(store.claim(ref_of(), CONFIG).aborted(0)) == [span(25, 11)]
