"""From what a broker sends to the records that the user sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.model import ConsumerRecord
from ottla.client.state.consumer.control_records import MarkedRecord
from ottla.client.state.consumer.fetched_partition import FetchedPartition, ReadSettings
from ottla.errors import AbortableError, DeserializationError, ErrorCode
from ottla.model import TopicPartition
from ottla.records.batch import BatchFlag, TimestampType, build_batch
from ottla.records.compression import Codec
from ottla.records.control import MarkerType, build_marker_batch
from ottla.records.record import Record
from ottla.wire.messages.fetch import AbortedTransaction, PartitionData

LEGACY = Path(__file__).parents[2] / "records" / "legacy_messages.txt"
PARTITION = TopicPartition("t", 3)


def batch(start: int, count: int, **options: Any) -> bytes:
    records = [Record(n, 1000 + n, b"k%d" % n, b"v%d" % n) for n in range(start, start + count)]
    return build_batch(records, base_offset=start, leader_epoch=4, **options)


def transactional(start: int, count: int, producer_id: int) -> bytes:
    return batch(
        *(start, count),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        flags=BatchFlag.TRANSACTIONAL,
    )


def marker(offset: int, producer_id: int, kind: MarkerType) -> bytes:
    return build_marker_batch(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
        leader_epoch=4,
    )


def fetched(
    *parts: bytes, at: int = 0, aborted: list[tuple[int, int]] | None = None, **settings: Any
) -> FetchedPartition:
    data = PartitionData(
        partition_index=3,
        error_code=0,
        high_watermark=1000,
        aborted_transactions=[
            AbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first in aborted or ()
        ],
        records=memoryview(b"".join(parts)),
    )
    return FetchedPartition(PARTITION, at, data, ReadSettings(**settings))


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_a_record_has_everything_that_was_sent() -> None:
    sent = Record(5, 77, b"k", None, (("h", b"1"), ("h", None)))
    took = fetched(build_batch([sent], base_offset=5, leader_epoch=9), at=5).take(10)
    assert took == [
        ConsumerRecord(
            "t",
            3,
            5,
            77,
            TimestampType.CREATE_TIME,
            b"k",
            None,
            (("h", b"1"), ("h", None)),
            9,
            1,
            -1,
        )
    ]


def test_append_times_are_the_brokers() -> None:
    data = batch(0, 2, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time_ms=5)
    took = fetched(data).take(2)
    assert [(r.timestamp_ms, r.timestamp_type) for r in took] == [(5, 1), (5, 1)]
    assert all(r.timestamp_type is TimestampType.LOG_APPEND_TIME for r in took)


@pytest.mark.parametrize("codec", list(Codec))
def test_slices_make_up_the_whole(codec: Codec) -> None:
    answer = fetched(batch(0, 5, codec=codec), batch(5, 1), batch(6, 4, codec=codec))
    assert answer.end_offset == 10
    slices = []
    while not answer.is_consumed:
        slices.append(offsets(answer.take(4)))
        assert answer.next_offset == slices[-1][-1] + 1
    assert slices == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert answer.record_count == 10


def test_records_before_the_position_are_not_given_again() -> None:
    # A batch comes as a whole, also for an offset in its middle.
    answer = fetched(batch(0, 5), batch(5, 5), at=3)
    assert offsets(answer.take(100)) == [3, 4, 5, 6, 7, 8, 9]


def test_the_position_passes_what_compaction_removed() -> None:
    records = [Record(2, 0, None, b"x")]
    answer = fetched(build_batch(records, base_offset=0, last_offset=9), at=0)
    assert offsets(answer.take(100)) == [2]
    assert answer.next_offset == answer.end_offset == 10
    empty = fetched(build_batch([], base_offset=0, last_offset=9), at=0)
    assert empty.take(100) == []
    assert empty.next_offset == 10
    assert empty.is_consumed


def test_a_batch_that_the_answer_cuts_off_is_left_for_the_next_fetch() -> None:
    answer = fetched(batch(0, 2), batch(2, 2)[:-1])
    assert answer.end_offset == 2
    assert offsets(answer.take(100)) == [0, 1]
    assert answer.is_consumed


def test_an_answer_without_a_whole_batch_is_told() -> None:
    answer = fetched(batch(0, 2)[:-1])
    assert answer.end_offset is None
    with pytest.raises(AbortableError, match="without a complete batch"):
        answer.take(1)


def test_a_wrong_checksum_stops_the_partition_until_somebody_seeks() -> None:
    bad = bytearray(batch(2, 2))
    bad[-1] ^= 1
    answer = fetched(batch(0, 2), bytes(bad), batch(4, 2))
    assert offsets(answer.take(100)) == [0, 1], "what is right goes first"
    for _ in range(2):
        with pytest.raises(AbortableError, match="checksum of the batch at offset 2") as caught:
            answer.take(100)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert caught.value.context["partition"] == PARTITION
    assert answer.next_offset == 2
    assert not answer.is_consumed


def test_checksums_are_not_looked_at_without_check_crcs() -> None:
    data = bytearray(batch(0, 2))
    data[17] ^= 1
    assert offsets(fetched(bytes(data), check_crcs=False).take(10)) == [0, 1]


def test_messages_of_old_formats_are_read() -> None:
    """Compressed ones from their middle too; the vector has offsets 0 to 2."""
    for line in LEGACY.read_text(encoding="utf-8").splitlines()[1:]:
        magic, _, codec, data = line.split()
        answer = fetched(bytes.fromhex(data), batch(3, 2), at=1)
        assert answer.end_offset == 5, (magic, codec)
        found = answer.take(2) + answer.take(10)
        assert offsets(found) == [1, 2, 3, 4], (magic, codec)
        assert [record.leader_epoch for record in found] == [None, None, 4, 4]
        assert answer.is_consumed


def test_damaged_messages_of_old_formats_stop_the_partition() -> None:
    old = bytearray(batch(2, 1))
    old[16] = 1
    answer = fetched(bytes(old), at=2)
    with pytest.raises(AbortableError, match="checksum of the message at offset 2") as error:
        answer.take(10)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


# Deserializers


def number(topic: str, headers: Any, data: bytes) -> int:
    assert topic == "t"
    assert headers == ()
    return int(data)


def numbers(*values: bytes | None) -> bytes:
    return build_batch([Record(n, 0, value, value) for n, value in enumerate(values)])


def test_keys_and_values_are_deserialized() -> None:
    answer = fetched(numbers(b"12", None), key_of=number, value_of=number)
    first, second = answer.take(10)
    assert (first.key, first.value, first.serialized_key_size) == (12, 12, 2)
    assert (second.key, second.value, second.serialized_value_size) == (None, None, -1)
    assert answer.is_consumed


@pytest.mark.parametrize("what", ["key", "value"])
def test_a_record_that_cannot_be_deserialized_is_named_and_stays_in_line(what: str) -> None:
    settings: dict[str, Any] = {f"{what}_of": number}
    answer = fetched(numbers(b"1", b"x", b"3"), batch(3, 1), **settings)
    assert offsets(answer.take(10)) == [0]
    for _ in range(2):
        with pytest.raises(DeserializationError, match=f"The {what} of a record") as caught:
            answer.take(10)
        assert (caught.value.partition, caught.value.offset) == (PARTITION, 1)
        assert caught.value.raw == b"x"
    assert answer.next_offset == 1


@given(st.lists(st.integers(1, 7), max_size=20))
def test_deserialized_slices_make_up_the_whole(sizes: list[int]) -> None:
    answer = fetched(batch(0, 9), batch(9, 1), batch(10, 6), value_of=lambda t, h, data: data[1:])
    values: list[Any] = []
    for size in [*sizes, 100]:
        took = answer.take(size)
        assert len(took) == min(size, 16 - len(values))
        values += [record.value for record in took]
        assert answer.next_offset == len(values)
    assert values == [b"%d" % n for n in range(16)]
    assert answer.is_consumed


# Transactions


def test_markers_are_not_records() -> None:
    for read_committed in (False, True):
        answer = fetched(
            transactional(0, 2, 9),
            marker(2, 9, MarkerType.COMMIT),
            read_committed=read_committed,
        )
        assert offsets(answer.take(10)) == [0, 1]
        assert answer.next_offset == 3


def test_aborted_records_are_seen_without_read_committed() -> None:
    answer = fetched(transactional(0, 2, 9), marker(2, 9, MarkerType.ABORT), aborted=[(9, 0)])
    assert offsets(answer.take(10)) == [0, 1]


def test_aborted_records_are_not_seen_with_read_committed() -> None:
    answer = fetched(
        transactional(0, 2, 9),
        transactional(2, 1, 8),
        batch(3, 1),
        marker(4, 9, MarkerType.ABORT),
        transactional(5, 1, 9),
        marker(6, 9, MarkerType.COMMIT),
        marker(7, 8, MarkerType.COMMIT),
        aborted=[(9, 0)],
        read_committed=True,
    )
    assert offsets(answer.take(10)) == [2, 3, 5]
    assert answer.next_offset == 8


def test_tools_see_what_consumers_do_not_with_a_mark() -> None:
    answer = fetched(
        batch(0, 1),
        transactional(1, 2, 9),
        marker(3, 9, MarkerType.ABORT),
        transactional(4, 1, 9),
        marker(5, 9, MarkerType.COMMIT),
        aborted=[(9, 1)],
        read_committed=True,
        shows_control=True,
        shows_aborted=True,
        value_of=lambda topic, headers, value: value.decode(),
    )
    took = [record for _ in range(9) for record in answer.take(1)]
    assert offsets(took) == [0, 1, 2, 3, 4, 5]
    marked = {r.offset: r for r in took if isinstance(r, MarkedRecord)}
    assert [(r.offset, r.is_control, r.producer_id) for r in marked.values()] == [
        (1, False, 9),
        (2, False, 9),
        (3, True, 9),
        (5, True, 9),
    ]
    # Deserializers are for what consumers get.
    assert [took[0].value, took[1].value, took[4].value] == ["v0", b"v1", "v4"]


def test_what_is_shown_can_be_chosen() -> None:
    parts = (transactional(0, 1, 9), marker(1, 9, MarkerType.ABORT), batch(2, 1))

    def seen(**settings: bool) -> list[int]:
        return offsets(fetched(*parts, aborted=[(9, 0)], read_committed=True, **settings).take(9))

    assert seen() == [2]
    assert seen(shows_control=True) == [1, 2]
    assert seen(shows_aborted=True) == [0, 2]


def test_the_aborted_list_need_not_be_in_order() -> None:
    answer = fetched(
        transactional(0, 1, 1),
        transactional(1, 1, 2),
        marker(2, 2, MarkerType.ABORT),
        transactional(3, 1, 2),
        marker(4, 1, MarkerType.ABORT),
        marker(5, 2, MarkerType.ABORT),
        aborted=[(2, 3), (1, 0), (2, 1)],
        read_committed=True,
    )
    assert answer.take(10) == []
    assert answer.is_consumed
    assert answer.next_offset == 6


def test_an_answer_from_the_middle_of_an_aborted_transaction_hides_it() -> None:
    answer = fetched(
        transactional(5, 3, 9), marker(8, 9, MarkerType.ABORT), at=6, aborted=[(9, 2)],
        read_committed=True,
    )  # fmt: skip
    assert answer.take(10) == []
    assert answer.next_offset == 9


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["data", "commit", "abort"])), max_size=30
    ),
    st.integers(0, 20),
    st.integers(1, 5),
)
def test_a_reader_of_committed_records_sees_exactly_those(
    steps: list[tuple[int, str]], start: int, size: int
) -> None:
    """Producer 0 is not transactional; the others write, and end what they have open."""
    log: list[bytes] = []
    open_at: dict[int, list[int]] = {}
    committed: set[int] = set()
    aborted: list[tuple[int, int, int]] = []
    offset = 0
    for producer, step in steps:
        if step == "data" and producer == 0:
            log.append(batch(offset, 1))
            committed.add(offset)
        elif step == "data":
            log.append(transactional(offset, 1, producer))
            open_at.setdefault(producer, []).append(offset)
        elif open_at.get(producer):
            log.append(marker(offset, producer, MarkerType[step.upper()]))
            written = open_at.pop(producer)
            if step == "commit":
                committed.update(written)
            else:
                aborted.append((producer, written[0], offset))
        else:
            continue
        offset += 1
    # The broker sends up to the last stable offset, and the aborted transactions that end in there.
    end = min((written[0] for written in open_at.values()), default=offset)
    start = min(start, end)
    told = [(producer, first) for producer, first, ended in aborted if ended >= start]
    answer = fetched(*log[start:end], at=start, aborted=told, read_committed=True)
    seen: list[int] = []
    while not answer.is_consumed:
        seen += offsets(answer.take(size))
    assert seen == sorted(o for o in committed if start <= o < end)
    assert answer.next_offset == end
