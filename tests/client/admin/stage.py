"""What the tests of the admin client act on: a broker, ours or Apache Kafka's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.broker.requests import eventually

from ottla.admin import NewTopic, OffsetSpec
from ottla.client.blocking.admin import Admin
from ottla.client.raw import RawConnection


@dataclass
class Stage:
    """An admin client, a raw connection to the only broker, and a name that nobody else uses."""

    admin: Admin
    connection: RawConnection
    name: str
    patience_seconds: float = 0.0
    """How long the broker may take to show what it has answered: Kafka's hears of it from the controller."""

    def topic(self, partitions: int = 1) -> str:
        """A new topic, that the broker leads already: Kafka needs a moment for that."""
        name = self.new_name()
        self.admin.create_topics([NewTopic(name, partitions, 1)])
        # Only of a topic that the broker has heard of, the next call waits for the leaders.
        assert self.comes_true(lambda: name in self.admin.list_topics())
        self.admin.list_offsets({(name, number): OffsetSpec.LATEST for number in range(partitions)})
        return name

    def comes_true(self, condition: Callable[[], bool]) -> bool:
        """Whether the broker shows it, as soon as can be expected of it."""
        return eventually(condition, self.patience_seconds)

    def new_name(self) -> str:
        return f"{self.name}-{uuid.uuid4().hex[:8]}"


Test = TypeVar("Test", bound=Callable[[Stage], None])

ESSENTIAL: list[Callable[[Stage], None]] = []


def essential(test: Test) -> Test:
    """A test that Apache Kafka has to pass as well."""
    ESSENTIAL.append(test)
    return test
