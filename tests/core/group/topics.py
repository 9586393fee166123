"""The topics of a cluster, for machines of groups without a broker."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid5

from ottla.core.catalog import Topic

NAMESPACE = UUID(int=19)


class SomeTopics:
    """Topics that tests create, grow and delete."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.topics_version = 0
        self.created_version = 0
        self._made = 0

    def create(self, name: str, partition_count: int) -> UUID:
        self._made += 1
        topic_id = uuid5(NAMESPACE, f"{name} {self._made}")
        self._set(Topic(name, topic_id, partition_count, 1))
        self.created_version = self.topics_version
        return topic_id

    def grow(self, name: str, partition_count: int) -> None:
        self._set(replace(self.topics[name], partition_count=partition_count))

    def delete(self, name: str) -> None:
        self.topics_version += 1
        del self.topics_by_id[self.topics.pop(name).topic_id]

    def _set(self, topic: Topic) -> None:
        self.topics_version += 1
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic


class _Every(dict[UUID, Topic]):
    def __contains__(self, topic_id: object) -> bool:
        return True


class EveryTopic(SomeTopics):
    """No offset is of a topic that does not exist."""

    def __init__(self) -> None:
        super().__init__()
        self.topics_by_id = _Every()
