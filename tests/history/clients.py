"""The clients by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer

from tests.history.client import Client
from tests.history.confluent_client import ConfluentClient

if TYPE_CHECKING:
    from tests.history.worker import Task


def make_client(task: Task, consumer: Consumer | None) -> Client:
    """A producer; with a consumer it can make that one's offsets part of its transactions."""
    metadata = None if consumer is None else consumer.consumer_group_metadata
    return ConfluentClient(task.bootstrap_servers, task.transactional_id, metadata)
