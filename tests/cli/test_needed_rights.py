"""An error of authorization says which operation on which resource is missing."""

from __future__ import annotations

import pytest

from ottla.broker.requests.apis import SERVED
from ottla.cli.errors import line_of
from ottla.cli.needed_rights import OPERATIONS, needed_right
from ottla.errors import ErrorCode, exception_for
from ottla.model import TopicPartition

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("code", "context", "expected"),
    [
        (TOPIC, {"api": "Produce", "partition": "my-orders-0"}, "Write on topic my-orders"),
        (TOPIC, {"api": "Fetch", "partition": TopicPartition("t", 3)}, "Read on topic t"),
        (TOPIC, {"api": "DeleteTopics", "topic": "t"}, "Delete on topic t"),
        (
            TOPIC,
            {"api": "Metadata", "topic": "t"},
            "Describe on topic t (Read and Write include it)",
        ),
        (GROUP, {"api": "FindCoordinator", "key": "g"}, "Describe on group g (Read includes it)"),
        (GROUP, {"api": "JoinGroup", "group": "g"}, "Read on group g"),
        (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            {"api": "InitProducerId", "transactional_id": "i"},
            "Write on transactional id i",
        ),
        (CLUSTER, {"api": "CreateAcls"}, "Alter on the cluster"),
        (CLUSTER, {"api": "Unheard"}, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {"api": "Fetch", "topic": "t"}, None),
    ],
)
def test_the_operation_follows_from_the_api(
    code: ErrorCode, context: dict[str, object], expected: str | None
) -> None:
    error = exception_for(code, None, **context)
    assert needed_right(error) == expected
    line = line_of(error)
    assert "\n" not in line
    assert expected is None or f"it needs {expected}: `ottla acls create` grants that" in line


def test_every_api_that_is_named_exists() -> None:
    assert {api for _, api in OPERATIONS} - {"DescribeTopics"} <= {
        api.name for api in SERVED.values()
    }
