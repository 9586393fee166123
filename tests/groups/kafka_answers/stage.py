"""Where a script plays: a broker, a group, topics and virtual members, each on a connection of its own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol
from uuid import UUID

from tests.broker import group_requests as ask
from tests.broker.requests import create, delete, eventually
from tests.groups.kafka_answers.transcript import Transcript

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

GROUP_RESOURCE = 32
GROUP_SOURCE = 8
SET, DELETE, APPEND = 0, 1, 2
METADATA_VERSION = 12


class BrokerUnderTest(Protocol):
    """A broker that scripts are played on; it has the options of `tests.groups.kafka_answers.brokers`."""

    @property
    def address(self) -> str: ...

    def let_pass(self, milliseconds: float) -> None:
        """Lets time pass at the broker."""

    def settle(self) -> None:
        """Waits until the broker has handled what was sent, and done what it does in its own time."""

    def await_topic(self, group: str, topic: str, partitions: int) -> None:
        """Waits until the coordinator of a group knows that a topic has so many partitions."""


class Topic:
    """A topic of a script: its name differs in every run, `title` does not."""

    def __init__(self, name: str, topic_id: UUID, title: str) -> None:
        self.name = name
        self.topic_id = topic_id
        self.title = title


class Stage:
    """A group of its own, and everything that a script needs; each call writes its answer down."""

    def __init__(self, broker: BrokerUnderTest, stack: ExitStack) -> None:
        self.broker = broker
        self.transcript = Transcript()
        self._stack = stack
        self._topics: dict[UUID, Topic] = {}
        self.suffix = uuid.uuid4().hex[:10]
        self.transcript.call(self.suffix, "SUFFIX")
        self.group = self.own_name("group")
        self.connection = self.connect()

    def own_name(self, title: str) -> str:
        """A name that no other run uses; transcripts have the title."""
        name = f"{title}-{self.suffix}"
        self.transcript.call(name, title)
        return name

    def connect(self) -> RawConnection:
        return self._stack.enter_context(RawConnection(self.broker.address))

    def say(self, step: str, answer: Any) -> Any:
        self.transcript.add(step, answer)
        return answer

    def settle(self) -> None:
        self.broker.settle()

    def wait(self, milliseconds: int) -> None:
        self.broker.let_pass(milliseconds)
        self.settle()

    # Topics.

    def topic(self, title: str, partitions: int = 3) -> Topic:
        name = self.own_name(title)
        create(self.connection, name, partitions=partitions)
        found = self._await_topic(name, partitions)
        made = Topic(name, found.topic_id, title)
        self._topics[made.topic_id] = made
        self.transcript.call_topic(made.topic_id, title)
        return made

    def topic_of(self, topic_id: UUID) -> Topic:
        """A topic of the script, or one that was there before."""
        if topic_id not in self._topics:
            request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)])
            (found,) = self.connection.call(request, MetadataResponse, METADATA_VERSION).topics
            self._topics[topic_id] = Topic(found.name, topic_id, found.name)
            self.transcript.call_topic(topic_id, found.name)
        return self._topics[topic_id]

    def grow(self, topic: Topic, partitions: int) -> None:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic.name, count=partitions, assignments=None)],
            timeout_ms=10_000,
            validate_only=False,
        )
        (result,) = self.connection.call(request, CreatePartitionsResponse, 3).results
        assert result.error_code == ErrorCode.NONE, result
        self._await_topic(topic.name, partitions)

    def delete_topic(self, topic: Topic) -> None:
        assert delete(self.connection, topic.name).error_code == ErrorCode.NONE
        self._await_topic(topic.name, 0)

    def _await_topic(self, name: str, partitions: int) -> Any:
        """Waits until the broker and the group's coordinator know of a change."""
        answers: list[Any] = []

        def look() -> bool:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
            )
            answers.extend(self.connection.call(request, MetadataResponse, METADATA_VERSION).topics)
            return len(answers[-1].partitions) == partitions

        assert eventually(look, 30), answers[-1]
        self.broker.await_topic(self.group, name, partitions)
        return answers[-1]

    # Administration.

    def describe(self, *groups: str, version: int = 1) -> Any:
        request = ConsumerGroupDescribeRequest(group_ids=list(groups or [self.group]))
        answer = self.connection.call(request, ConsumerGroupDescribeResponse, version)
        return self.say(f"describe v{version}", answer)

    def describe_classic(self, *groups: str, version: int = 6) -> Any:
        request = DescribeGroupsRequest(groups=list(groups or [self.group]))
        answer = self.connection.call(request, DescribeGroupsResponse, version)
        return self.say(f"describe as a classic group v{version}", answer)

    def list_groups(
        self, states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5
    ) -> Any:
        """Whether the script's group is in the list, and how."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = self.connection.call(request, ListGroupsResponse, version)
        answer.groups = [one for one in answer.groups if one.group_id == self.group]
        return self.say(f"list v{version} states={list(states)} types={list(types)}", answer)

    def delete_group(self, *groups: str, version: int = 2) -> Any:
        request = DeleteGroupsRequest(groups_names=list(groups or [self.group]))
        answer = self.connection.call(request, DeleteGroupsResponse, version)
        return self.say(f"delete the group v{version}", answer)

    def delete_offsets(self, topic: Topic, *partitions: int) -> Any:
        answer = ask.delete_offsets(self.connection, self.group, {topic.name: partitions})
        return self.say(f"delete the offsets of {topic.title}{list(partitions)}", answer)

    def find_coordinator(self, *keys: str, key_type: int = ask.GROUP_KEY, version: int = 6) -> Any:
        answer = ask.find_coordinator(
            self.connection, *(keys or (self.group,)), key_type=key_type, version=version
        )
        return self.say(f"find the coordinator v{version} type {key_type}", answer)

    def describe_config(
        self, *keys: str, group: str | None = None, synonyms: bool = True, version: int = 4
    ) -> Any:
        answer = self._configs(
            self.group if group is None else group, list(keys), synonyms=synonyms, version=version
        )
        return self.say(f"describe the group's configs {list(keys)}", answer)

    def _configs(
        self, group: str, keys: Sequence[str], *, synonyms: bool = False, version: int = 4
    ) -> Any:
        resource = DescribeConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=list(keys) or None
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)
        return self.connection.call(request, DescribeConfigsResponse, version)

    def set_config(self, configs: Mapping[str, str | None], group: str | None = None) -> Any:
        """Sets configs of the group; None removes one."""
        changes = [
            AlterableConfig(
                name=name, config_operation=DELETE if value is None else SET, value=value
            )
            for name, value in configs.items()
        ]
        answer = self.alter_config(changes, f"set {dict(configs)}", group)
        if answer.responses[0].error_code == ErrorCode.NONE:
            self._await_configs(configs, self.group if group is None else group)
        return answer

    def _await_configs(self, configs: Mapping[str, str | None], group: str) -> None:
        """Waits until the broker knows of a change; the coordinator hears of it a moment later."""

        def is_so() -> bool:
            found = {
                one.name: one for one in self._configs(group, list(configs)).results[0].configs
            }
            return all(
                found[name].config_source != GROUP_SOURCE
                if value is None
                else found[name].value == value
                for name, value in configs.items()
            )

        assert eventually(is_so, 30), configs
        self.settle()

    def alter_config(
        self, changes: Sequence[AlterableConfig], step: str, group: str | None = None
    ) -> Any:
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=self.group if group is None else group,
            configs=list(changes),
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = self.connection.call(request, IncrementalAlterConfigsResponse, 1)
        return self.say(step, answer)
