"""DeleteRecords: the start of the log moves up, and stays there."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    batch_of,
    create,
    delete_records,
    every_version_of,
    fetch,
    fill,
    produce,
    session_with,
    values_in,
)

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

UP_TO_HIGH_WATERMARK = -1


@pytest.mark.parametrize("version", every_version_of(DeleteRecordsRequest))
def test_the_log_starts_where_it_was_told(
    connection: RawConnection, topic: str, version: int
) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2", b"3")
    result = delete_records(connection, topic, 2, version)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
    assert fetch(connection, topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = fetch(connection, topic, 2)
    assert (found.log_start_offset, values_in(found)) == (2, [b"3"])


def test_up_to_the_high_watermark_empties_the_log(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2", b"3")
    result = delete_records(connection, topic, UP_TO_HIGH_WATERMARK)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 3)
    found = fetch(connection, topic, 3)
    assert (found.error_code, found.log_start_offset, found.high_watermark) == (0, 3, 3)
    assert fill(connection, topic, b"4") == [3]
    assert values_in(fetch(connection, topic, 3)) == [b"4"]


def test_inside_a_batch(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    produce(connection, topic, batch_of(b"1", b"2", b"3"))
    assert delete_records(connection, topic, 1).low_watermark == 1
    # The batch stays whole; the reader skips what is deleted.
    assert values_in(fetch(connection, topic, 1)) == [b"1", b"2", b"3"]


def test_below_the_start_nothing_happens(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2", b"3")
    delete_records(connection, topic, 2)
    result = delete_records(connection, topic, 1)
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("offset", [4, -2, 2**63 - 1])
def test_offsets_out_of_range(connection: RawConnection, topic: str, offset: int) -> None:
    create(connection, topic)
    fill(connection, topic, b"1", b"2", b"3")
    result = delete_records(connection, topic, offset)
    assert (result.error_code, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert len(values_in(fetch(connection, topic, 0))) == 3


def test_a_topic_that_only_compacts_refuses(connection: RawConnection, topic: str) -> None:
    create(connection, topic, config={"cleanup.policy": "compact"})
    fill(connection, topic, b"1")
    assert delete_records(connection, topic, 1).error_code == ErrorCode.POLICY_VIOLATION
    both = f"{topic}-both"
    create(connection, both, config={"cleanup.policy": "compact,delete"})
    fill(connection, both, b"1")
    assert delete_records(connection, both, 1).error_code == ErrorCode.NONE


def test_many_partitions_each_with_its_own_answer(connection: RawConnection, topic: str) -> None:
    create(connection, topic, 2)
    fill(connection, topic, b"1", b"2")
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=1) for index in (0, 1, 2)
                ],
            ),
            DeleteRecordsTopic(
                name="no-such-topic",
                partitions=[DeleteRecordsPartition(partition_index=0, offset=0)],
            ),
        ],
        timeout_ms=1000,
    )
    known, unknown = connection.call(request, DeleteRecordsResponse, 2).topics
    assert [(each.partition_index, each.error_code) for each in known.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_start_survives_a_restart(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic, config={"segment.bytes": "200"})
        fill(connection, topic, *[b"x" * 50] * 20)
        assert delete_records(connection, topic, 13).low_watermark == 13
    broker.stop()
    with session_with(start()) as connection:
        assert fetch(connection, topic, 12).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = fetch(connection, topic, 13)
        assert (found.log_start_offset, found.high_watermark) == (13, 20)
        assert fill(connection, topic, b"next") == [20]
