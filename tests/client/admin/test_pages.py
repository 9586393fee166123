"""Topics that are described page by page are complete, whatever the broker's pages look like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.admin import TopicDescription
from ottla.client.aio.admin.answers import Answers
from ottla.client.aio.admin.topic_descriptions import TopicPages
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.types import ZERO_UUID

MISSING = "missing"


def topic(
    name: str, partitions: range, error: ErrorCode = ErrorCode.NONE
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=0,
                partition_index=number,
                leader_id=1,
                replica_nodes=[1],
                isr_nodes=[1],
                offline_replicas=[],
            )
            for number in partitions
        ],
    )


def page(
    counts: dict[str, int], request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """What Kafka answers: topics by name, from the cursor on, while there is room."""
    cursor = request.cursor
    answer = DescribeTopicPartitionsResponse(topics=[])
    room = request.response_partition_limit
    for name in sorted([asked.name for asked in request.topics] or counts):
        if cursor is not None and name < cursor.topic_name:
            continue
        start = cursor.partition_index if cursor and cursor.topic_name == name else 0
        if name not in counts:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.topics.append(topic(name, range(0), unknown))
            continue
        if room == 0:
            answer.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        end = min(start + room, counts[name])
        answer.topics.append(topic(name, range(start, end)))
        room -= end - start
        if end < counts[name]:
            answer.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return answer


def finished(pages: TopicPages) -> Answers[str, TopicDescription]:
    answers: Answers[str, TopicDescription] = Answers("Describe", "topic")
    pages.finish(answers, {}, False)
    return answers


NAMES = st.sampled_from(["a", "b", "c", "d", MISSING])


@given(
    st.dictionaries(NAMES.filter(MISSING.__ne__), st.integers(1, 9)),
    st.lists(NAMES, unique=True),
    st.integers(1, 12),
)
def test_all_partitions_come_together(counts: dict[str, int], names: list[str], limit: int) -> None:
    pages = TopicPages(names, limit)
    requests = 0
    while (request := pages.next_request()) is not None:
        pages.add(page(counts, request))
        requests += 1
        assert requests < 100
    answers = finished(pages)
    found = {name: len(one.partitions) for name, one in answers.results.items()}
    assert found == {name: counts[name] for name in names if name in counts}
    assert set(answers.errors) == {name for name in names if name not in counts}


@given(st.dictionaries(NAMES.filter(MISSING.__ne__), st.integers(1, 9)), st.integers(1, 12))
def test_all_topics_come_without_their_names(counts: dict[str, int], limit: int) -> None:
    pages = TopicPages(None, limit)
    requests = 0
    while (request := pages.next_request()) is not None:
        assert not request.topics
        pages.add(page(counts, request))
        requests += 1
        assert requests < 100
    found = {name: len(one.partitions) for name, one in finished(pages).results.items()}
    assert found == counts


def test_a_broker_that_repeats_a_page_of_all_topics_does_not_keep_us() -> None:
    pages = TopicPages(None, 1)
    first = pages.next_request()
    assert first is not None
    answer = page({"a": 1, "b": 2}, first)
    for _ in range(2):
        pages.add(answer)
    assert pages.next_request() is None
    assert list(finished(pages).results) == ["a"]


def test_a_topic_that_is_deleted_between_pages_is_an_error() -> None:
    pages = TopicPages(["a", "b"], 2)
    counts = {"a": 3, "b": 1}
    while (request := pages.next_request()) is not None:
        pages.add(page(counts, request))
        counts.pop("a", None)
    answers = finished(pages)
    assert list(answers.results) == ["b"]
    assert answers.errors["a"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_repeats_a_page_does_not_keep_us_and_gives_nothing_incomplete() -> None:
    pages = TopicPages(["a", "b"], 1)
    first = pages.next_request()
    assert first is not None
    answer = page({"a": 2, "b": 1}, first)
    for _ in range(2):
        pages.add(answer)
    assert pages.next_request() is None
    assert finished(pages).results == {}
