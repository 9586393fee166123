"""Reading and changing the options of topics and brokers: what the three config APIs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final

from ottla.broker.cluster import Cluster
from ottla.broker.node import Node
from ottla.broker.requests.divisions import Division, Repeated
from ottla.broker.topics import config_changes
from ottla.core.catalog import Topic
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog
from ottla.ports import StorageError

logger = EventLog(__name__)

# What becomes of the options that were set for a resource.
Change = Callable[[Mapping[str, str]], dict[str, str] | Refused]


class ResourceType(IntEnum):
    """What can be configured, numbered as in Kafka."""

    TOPIC = 2
    BROKER = 4


# How a request to alter many resources is taken apart.
RESOURCES: Final = Division(
    "resources",
    "responses",
    piece_elements=64,
    repeated=Repeated(("resource_type", "resource_name"), most=2),
)

# Kafka has more kinds, which users may ask for by these names.
_WITHOUT_CONFIGS: Final = {8: "loggers", 16: "client metrics", 32: "groups"}


def check_broker_name(node: Node, name: str) -> Refused | None:
    """A broker resource is this broker, or with an empty name all of them."""
    if name and name != str(node.node_id):
        return Refused(ErrorCode.INVALID_REQUEST, f"this is broker {node.node_id}, not '{name}'")
    return None


def alter_all(
    node: Node, wanted: Sequence[tuple[int, str, Change]], validate_only: bool
) -> list[Refused | None]:
    """Alters resources, given by type and name, in their order; one that is named twice is refused.

    Topics that follow each other are altered in one step: their options do not depend on each other's.
    """
    times = Counter((resource_type, name) for resource_type, name, _ in wanted)
    outcomes: list[Refused | None] = []
    topics: dict[int, tuple[Topic, dict[str, str]]] = {}  # by their place among the outcomes
    for resource_type, name, change in wanted:
        refused: Refused | None = None
        if times[resource_type, name] > 1:
            refused = Refused(ErrorCode.INVALID_REQUEST, "the resource is named twice")
        elif resource_type == ResourceType.TOPIC:
            decided = _decide_topic(node, name, change)
            if isinstance(decided, Refused):
                refused = decided
            elif not validate_only:
                topics[len(outcomes)] = decided
        elif resource_type == ResourceType.BROKER:
            _alter_topics(node, topics, outcomes)
            refused = _alter_broker(node, name, change, validate_only)
        else:
            refused = unknown_resource(resource_type)
        outcomes.append(refused)
    _alter_topics(node, topics, outcomes)
    return outcomes


def _alter_topics(
    node: Node,
    topics: dict[int, tuple[Topic, dict[str, str]]],
    outcomes: list[Refused | None],
) -> None:
    """Alters what was decided so far, and takes it off."""
    if topics:
        try:
            node.topics.configure(list(topics.values()))
        except StorageError as error:
            for place in topics:
                outcomes[place] = Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        topics.clear()


def unknown_resource(resource_type: int) -> Refused:
    what = _WITHOUT_CONFIGS.get(resource_type, f"resources of type {resource_type}")
    return Refused(ErrorCode.INVALID_REQUEST, f"this broker has no configs of {what}")


def _decide_topic(node: Node, name: str, change: Change) -> tuple[Topic, dict[str, str]] | Refused:
    """What `change` makes of the options that were set for a topic."""
    topic = node.topics.find(name)
    if isinstance(topic, Refused):
        return topic
    config = change(topic.config)
    if isinstance(config, Refused):
        return config
    return node.options.check_topic_config(config) or (topic, config)


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
    refused = node.cluster.check_broker_config(name, config)
    if refused is None and not validate_only:
        try:
            _configure_broker(node.cluster, name, config)
        except StorageError as error:
            return Refused(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    return refused


def _configure_broker(cluster: Cluster, name: str, altered: Mapping[str, str]) -> None:
    changes = config_changes(cluster.catalog.broker_configs.get(name, {}), altered)
    cluster.commit(cluster.catalog.configure_broker(name, altered))
    cluster.reconfigure()
    logger.info(
        "broker_configured",
        "broker %(broker)s configured: %(changes)s",
        broker=name or "(all)",
        changes=changes,
    )
