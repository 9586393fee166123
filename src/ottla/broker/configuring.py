"""Reading and changing the options of topics and brokers: what the three config APIs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final

from ottla.broker.node import Node
from ottla.core.catalog import Refused, Topic
from ottla.errors import ErrorCode
from ottla.ports import StorageError

# What becomes of the options that were set for a resource.
Change = Callable[[Mapping[str, str]], dict[str, str] | Refused]


class ResourceType(IntEnum):
    """What can be configured, numbered as in Kafka."""

    TOPIC = 2
    BROKER = 4


# Kafka has more kinds, which users may ask for by these names.
_WITHOUT_CONFIGS: Final = {8: "loggers", 16: "client metrics", 32: "groups"}


def find_topic(node: Node, name: str) -> Topic | Refused:
    return node.find_topic(name)


def check_broker_name(node: Node, name: str) -> Refused | None:
    """A broker resource is this broker, or with an empty name all of them."""
    if name and name != str(node.node_id):
        return Refused(ErrorCode.INVALID_REQUEST, f"this is broker {node.node_id}, not '{name}'")
    return None


def alter_all(
    node: Node, wanted: Sequence[tuple[int, str, Change]], validate_only: bool
) -> list[Refused | None]:
    """Alters resources, given by type and name, one after the other; one that is named twice is refused."""
    times = Counter((resource_type, name) for resource_type, name, _ in wanted)
    twice = Refused(ErrorCode.INVALID_REQUEST, "the resource is named twice")
    return [
        twice
        if times[resource_type, name] > 1
        else _alter(node, resource_type, name, change, validate_only)
        for resource_type, name, change in wanted
    ]


def _alter(
    node: Node, resource_type: int, name: str, change: Change, validate_only: bool
) -> Refused | None:
    """Replaces the options that were set for a resource by what `change` makes of them."""
    try:
        if resource_type == ResourceType.TOPIC:
            return _alter_topic(node, name, change, validate_only)
        if resource_type == ResourceType.BROKER:
            return _alter_broker(node, name, change, validate_only)
    except StorageError as error:
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return unknown_resource(resource_type)


def unknown_resource(resource_type: int) -> Refused:
    what = _WITHOUT_CONFIGS.get(resource_type, f"resources of type {resource_type}")
    return Refused(ErrorCode.INVALID_REQUEST, f"this broker has no configs of {what}")


def _alter_topic(
    node: Node,
    name: str,
    change: Change,
    validate_only: bool,
) -> Refused | None:
    topic = find_topic(node, name)
    if isinstance(topic, Refused):
        return topic
    config = change(topic.config)
    if isinstance(config, Refused):
        return config
    refused = node.check_topic_config(config)
    if refused is None and not validate_only:
        node.configure_topic(topic, config)
    return refused


def _alter_broker(
    node: Node,
    name: str,
    change: Change,
    validate_only: bool,
) -> Refused | None:
    refused = check_broker_name(node, name)
    if refused is not None:
        return refused
    config = change(node.cluster.catalog.broker_configs.get(name, {}))
    if isinstance(config, Refused):
        return config
    refused = node.check_broker_config(name, config)
    if refused is None and not validate_only:
        node.configure_broker(name, config)
    return refused
