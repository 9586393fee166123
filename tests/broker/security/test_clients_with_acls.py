"""Producers and consumers work with the ACLs that `kafka-acls --producer` and `--consumer` create, and not without."""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from tests.broker.requests import session_with
from tests.broker.security.acl_requests import (
    OPEN_TO_ANONYMOUS,
    WITH_AUTHORIZER,
    create_acls,
)
from tests.lasting import LASTING
from tests.waiting import in_time

import ottla
from ottla.access import AclBinding, Operation, PatternType, Permission, ResourceType
from ottla.errors import ErrorCode

SECONDS = 20.0


def allow(
    resource_type: ResourceType, name: str, *operations: Operation, prefix: bool = False
) -> list[AclBinding]:
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    return [
        AclBinding(resource_type, name, pattern, "User:ANONYMOUS", "*", operation, Permission.ALLOW)
        for operation in operations
    ]


PRODUCER = allow(
    ResourceType.TOPIC, "orders", Operation.WRITE, Operation.DESCRIBE, Operation.CREATE
)
TRANSACTIONAL = allow(
    ResourceType.TRANSACTIONAL_ID, "till", Operation.WRITE, Operation.DESCRIBE, prefix=True
)
CONSUMER = [
    *allow(ResourceType.TOPIC, "orders", Operation.READ, Operation.DESCRIBE),
    *allow(ResourceType.GROUP, "readers", Operation.READ),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose clients may do what the ACLs allow; a super user has created them before."""
    data = tmp_path_factory.mktemp("acls") / "data"
    with (
        ottla.Broker({**OPEN_TO_ANONYMOUS, **LASTING}, data_dir=data) as broker,
        session_with(broker) as connection,
    ):
        outcomes = create_acls(connection, *PRODUCER, *TRANSACTIONAL, *CONSUMER)
        assert {error for error, _ in outcomes} == {ErrorCode.NONE}
    with ottla.Broker({**WITH_AUTHORIZER, **LASTING}, data_dir=data) as broker:
        yield broker.bootstrap_servers


def produced(address: str, topic: str, **options: object) -> confluent_kafka.KafkaError | None:
    """The error with which a record was refused, if it was."""
    settings = {name.replace("_", "."): value for name, value in options.items()}
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0, **settings})
    outcomes: list[confluent_kafka.KafkaError | None] = []
    try:
        if "transactional.id" in settings:
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
        producer.produce(topic, b"one", on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(SECONDS) == 0
        if "transactional.id" in settings:
            producer.commit_transaction(SECONDS)
    except confluent_kafka.KafkaException as failure:
        (error,) = failure.args
        assert isinstance(error, confluent_kafka.KafkaError)
        return error
    return outcomes[0]


def consumed(address: str, group: str, protocol: str) -> bytes | int | None:
    """The first record, or the error."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + SECONDS
    try:
        while (message := consumer.poll(0.1)) is None:
            in_time(deadline, "neither a record nor an error")
        error = message.error()
        return message.value() if error is None else error.code()
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "options", [{}, {"enable_idempotence": True}, {"transactional_id": "till-1"}]
)
def test_producers_may_do_what_they_need(address: str, options: dict[str, object]) -> None:
    assert produced(address, "orders", **options) is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumers_may_do_what_they_need(address: str, protocol: str) -> None:
    assert produced(address, "orders") is None
    assert consumed(address, "readers", protocol) == b"one"


def test_clients_are_told_what_they_may_not_do(address: str) -> None:
    errors = confluent_kafka.KafkaError
    refused = produced(address, "secret")
    assert refused is not None
    assert refused.code() == errors.TOPIC_AUTHORIZATION_FAILED
    refused = produced(address, "orders", transactional_id="other")
    assert refused is not None
    assert refused.code() == errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    for protocol in ("classic", "consumer"):
        assert consumed(address, "others", protocol) == errors.GROUP_AUTHORIZATION_FAILED
