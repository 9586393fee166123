"""Records: delete those at the beginning of partitions."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.aio.admin.requests import Calls, Partition, Question, by_topic, timeout_in_seconds
from ottla.client.aio.admin.results import Answers
from ottla.client.aio.admin.targets import Leaders
from ottla.model import TopicPartition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


class RecordCalls(Calls):
    """The calls about records."""

    @timeout_in_seconds
    async def delete_records(
        self, before_offsets: Mapping[Partition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Deletes the records before an offset, -1 for all there are; gives the new start offsets."""
        wanted = {
            TopicPartition(*partition): offset for partition, offset in before_offsets.items()
        }

        def build(version: int, some: list[TopicPartition], limit_ms: int) -> DeleteRecordsRequest:
            return deleting({key: wanted[key] for key in some}, limit_ms)

        question = Question(DeleteRecordsRequest, build, read_deleted)
        return await self.ask(wanted, Leaders(), question, timeout)


def deleting(offsets: Mapping[TopicPartition, int], limit_ms: int) -> DeleteRecordsRequest:
    """The request to delete records."""
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(
                        partition_index=number, offset=offsets[TopicPartition(topic, number)]
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(offsets).items()
        ],
        timeout_ms=limit_ms,
    )


def read_deleted(response: DeleteRecordsResponse, answers: Answers[TopicPartition, int]) -> None:
    """Where each partition starts now."""
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            answers.take(key, partition.low_watermark, partition.error_code)
