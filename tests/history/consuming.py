"""What the workload asks of a consumer; one class per client translates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.clients.confluent_kafka.closing import close_member
from tests.history.confluent_client import consumer_of
from tests.history.digest import Place

Take = Callable[[Sequence[Place]], None]
GiveUp = Callable[[], None]


class Polled(NamedTuple):
    """A record that a consumer got."""

    place: Place
    offset: int
    value: str


class NotNowError(Exception):
    """The call may succeed later."""


class GroupConsumer(ABC):
    """A consumer that commits nothing by itself and begins where it is told."""

    @abstractmethod
    def subscribe(self, topic: str, take: Take, give_up: GiveUp) -> None:
        """Joins the group; `take` is told what it got and has to call `begin`."""

    @abstractmethod
    def begin(self, offsets: dict[Place, int]) -> None:
        """Reads these places from these offsets on, and no others."""

    @abstractmethod
    def poll(self, wait_seconds: float) -> list[Polled]: ...

    @abstractmethod
    def committed(self, places: Sequence[Place], seconds: float) -> dict[Place, int]:
        """The offsets that the group has committed, -1 where there is none."""

    @abstractmethod
    def seek(self, offsets: dict[Place, int]) -> None: ...

    @abstractmethod
    def assignment(self) -> list[Place]: ...

    @abstractmethod
    def group_metadata(self) -> Any:
        """Who commits, in the client's own words."""

    @abstractmethod
    def close(self) -> None: ...


class ConfluentConsumer(GroupConsumer):
    """librdkafka's."""

    def __init__(self, bootstrap_servers: str, group: str, isolation: str) -> None:
        self._consumer = consumer_of(bootstrap_servers, group, isolation)

    def subscribe(self, topic: str, take: Take, give_up: GiveUp) -> None:
        def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            take([Place(one.topic, one.partition) for one in partitions])

        def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            give_up()
            consumer.unassign()

        self._consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)

    def begin(self, offsets: dict[Place, int]) -> None:
        self._consumer.assign([TopicPartition(*place, at) for place, at in offsets.items()])

    def poll(self, wait_seconds: float) -> list[Polled]:
        message: Any = self._consumer.poll(wait_seconds)
        if message is None or message.error() is not None:
            return []
        place = Place(message.topic(), message.partition())
        return [Polled(place, message.offset(), message.value().decode())]

    def committed(self, places: Sequence[Place], seconds: float) -> dict[Place, int]:
        try:
            found = self._consumer.committed([TopicPartition(*one) for one in places], seconds)
        except KafkaException as error:
            raise NotNowError from error
        if any(one.error for one in found):
            raise NotNowError
        return {Place(one.topic, one.partition): max(one.offset, -1) for one in found}

    def seek(self, offsets: dict[Place, int]) -> None:
        try:
            for place, offset in offsets.items():
                self._consumer.seek(TopicPartition(*place, offset))
        except KafkaException:
            # The partition is being taken away, or its fetcher is not there yet: take all anew.
            self.begin(offsets)

    def assignment(self) -> list[Place]:
        return [Place(one.topic, one.partition) for one in self._consumer.assignment()]

    def group_metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        close_member(self._consumer)
