"""ListPartitionReassignments: nothing is ever being moved."""

from __future__ import annotations

import pytest
from tests.broker.requests import create

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


@pytest.mark.parametrize("partitions", [None, [0], [7], []])
def test_there_are_none(
    connection: RawConnection, topic: str, partitions: list[int] | None
) -> None:
    create(connection, topic)
    request = ListPartitionReassignmentsRequest(
        topics=(
            None
            if partitions is None
            else [ListPartitionReassignmentsTopics(name=topic, partition_indexes=partitions)]
        )
    )
    answer = connection.call(request, ListPartitionReassignmentsResponse, 0)
    assert (answer.error_code, answer.error_message, answer.topics) == (ErrorCode.NONE, None, [])
