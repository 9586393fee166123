"""Injected errors have the shape that each API gives them, for what the fault concerns and nothing else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ottla.broker.requests.api import Api
from ottla.broker.requests.apis import SERVED
from ottla.broker.requests.response_errors import error_counter_of
from ottla.errors import ErrorCode
from ottla.testing.error_responses import ErrorInjection, merge
from ottla.testing.faults import Target
from ottla.testing.subjects import SUBJECTS, Named, Names
from ottla.wire.compile import decode_message, encode_message
from ottla.wire.declare import Field, fields_of
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.types import BytesType, Fixed, RecordsType, StringType, UuidType

TOPIC_ID = UUID(int=7)
VERSIONS = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in SERVED.values()
    for version in range(api.first_version, api.last_version + 1)
]


def topic_name(topic_id: UUID) -> str | None:
    return "by-id" if topic_id == TOPIC_ID else None


def filled(cls: type, version: int) -> Any:
    """A message with one element in every list."""
    return cls(**{field.name: value_of(field, version) for field in fields_of(cls)})


def value_of(field: Field, version: int) -> Any:
    if not field.present_in(version) and field.default is not None:
        return field.default()
    element = field.type.element
    value: Any
    if isinstance(element, type):
        value = filled(element, version)
    elif isinstance(element, Fixed):
        value = type(element.zero)(0)
    elif isinstance(element, UuidType):
        value = TOPIC_ID
    elif isinstance(element, StringType):
        value = "some"
    else:
        assert isinstance(element, BytesType | RecordsType)
        value = b""
    return [value] if field.type.is_list else value


def test_every_served_api_says_what_it_is_about() -> None:
    assert sorted(SUBJECTS) == sorted(api.name for api in SERVED.values())


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_a_request_is_refused_as_a_whole_in_a_response_that_can_be_sent(
    api: Api[Any, Any], version: int
) -> None:
    error = ErrorCode.KAFKA_STORAGE_ERROR
    answer: type = api.response
    injection = ErrorInjection(api.name, version, error, lambda named: True, topic_name)
    refusal = injection.refuse(filled(api.request, version), answer)
    assert refusal.accepted is None
    received = decode_message(answer, version, encode_message(refusal.response, version))
    counts: dict[int, int] = {}
    error_counter_of(answer)(received, counts)
    assert counts.keys() == {int(error)}


def produce(*partitions: tuple[str, int]) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=index, records=b"")
                    for topic, index in partitions
                    if topic == name
                ],
            )
            for name in dict.fromkeys(name for name, _ in partitions)
        ],
    )


def test_only_what_the_fault_concerns_is_refused_and_the_rest_is_still_done() -> None:
    request = produce(("tea", 0), ("tea", 1), ("coffee", 0))
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    concerns = Target(topic="tea", partition=1).concerns
    injection = ErrorInjection("Produce", 9, error, concerns, topic_name)
    refusal = injection.refuse(request, ProduceResponse)
    assert refusal.accepted is not None
    assert [
        (topic.name, partition.index)
        for topic in refusal.accepted.topic_data
        for partition in topic.partition_data
    ] == [("tea", 0), ("coffee", 0)]
    done = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                partition_responses=[
                    PartitionProduceResponse(index=0, error_code=0, base_offset=5)
                ],
            )
            for name in ("tea", "coffee")
        ]
    )
    merged = merge("Produce", done, refusal.response)
    assert [
        (topic.name, partition.index, partition.error_code, partition.base_offset)
        for topic in merged.responses
        for partition in topic.partition_responses
    ] == [("tea", 0, 0, 5), ("tea", 1, int(error), -1), ("coffee", 0, 0, 5)]
    assert len(request.topic_data[0].partition_data) == 2  # the request itself is as it was


def test_a_topic_that_is_named_by_its_id_is_found() -> None:
    request = produce(("", 3))
    request.topic_data[0].topic_id = TOPIC_ID
    assert list(Names("Produce", request, topic_name)) == [Named("by-id", 3)]


def test_a_response_is_overwritten_where_the_fault_concerns_it() -> None:
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="tea",
                partitions=[
                    PartitionData(
                        partition_index=index,
                        error_code=0,
                        high_watermark=9,
                        aborted_transactions=None,
                        records=b"some",
                    )
                    for index in (0, 1)
                ],
            )
        ]
    )
    concerns = Target(topic="tea", partition=1).concerns
    error = ErrorCode.OFFSET_OUT_OF_RANGE
    assert ErrorInjection("Fetch", 12, error, concerns, topic_name).overwrite(response) == 1
    kept, failed = response.responses[0].partitions
    assert (kept.error_code, kept.records) == (0, b"some")
    assert (failed.partition_index, failed.error_code, failed.records) == (1, int(error), b"")
    assert encode_message(response, 12)
