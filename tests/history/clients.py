"""The clients by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.history.client import Client
from tests.history.consuming import ConfluentConsumer, GroupConsumer

if TYPE_CHECKING:
    from tests.history.worker import Task

# Whose copiers share a group's partitions; the others take all of them, and their positions from the group.
WITH_MEMBERS = ("confluent", "ottla")


def make_consumer(task: Task) -> GroupConsumer:
    """A consumer: that of the client if it can be asked for its membership, else librdkafka's."""
    settings = (task.bootstrap_servers, task.group, task.isolation)
    if task.client == "ottla":
        from tests.history.ottla_client import OttlaConsumer

        return OttlaConsumer(*settings)
    return ConfluentConsumer(*settings)


def make_client(task: Task, consumer: GroupConsumer | None) -> Client:
    """A producer; with a consumer it can make that one's offsets part of its transactions."""
    # Only the client that is used is imported: there are many processes.
    metadata = None if consumer is None else consumer.group_metadata
    match task.client:
        case "ottla":
            from tests.history.ottla_client import OttlaClient

            return OttlaClient(task.bootstrap_servers, task.transactional_id, metadata)
        case "confluent":
            from tests.history.confluent_client import ConfluentClient

            return ConfluentClient(task.bootstrap_servers, task.transactional_id, metadata)
        case "aiokafka":
            from tests.history.aiokafka_client import AiokafkaClient

            return AiokafkaClient(task.bootstrap_servers, task.transactional_id, task.group)
        case "kafka-python":
            from tests.history.kafka_python_client import KafkaPythonClient

            return KafkaPythonClient(task.bootstrap_servers, task.transactional_id, task.group)
        case "raw":
            from tests.history.raw_client import RawClient

            return RawClient(task.bootstrap_servers, task.transactional_id, task.group, task.seed)
    raise ValueError(task.client)
