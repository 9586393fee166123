"""Topics that a cluster knows: Apache Kafka has created one before all of its parts have heard of it."""

from __future__ import annotations

import time
from collections.abc import Iterable

from tests.waiting import in_time

import ottla
from ottla.admin import NewTopic
from ottla.errors import KafkaError

SECONDS = 20


def create_topics(servers: str, topics: Iterable[NewTopic]) -> None:
    """Create them, and return when clients are told of them."""
    wanted = list(topics)
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(wanted)
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                admin.describe_topics([each.name for each in wanted])
            except KafkaError as error:
                in_time(deadline, error)
                time.sleep(0.02)
            else:
                return
