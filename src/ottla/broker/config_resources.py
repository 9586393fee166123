"""Reading and changing the options of topics and brokers, for the three config APIs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.broker.cluster import Cluster
from ottla.broker.node import Node
from ottla.broker.options import NodeOptions
from ottla.broker.requests.divisions import Division, Repeated
from ottla.broker.topics import config_changes
from ottla.config.broker import BrokerConfig
from ottla.config.options import OptionType, ResourceType, find_option, value_text
from ottla.config.topic import TopicConfig
from ottla.core.catalog import Topic
from ottla.core.outcomes import Refused
from ottla.errors import ConfigError, ErrorCode
from ottla.events import EventLog
from ottla.ports import StorageError

logger = EventLog(__name__)

# The new options of a resource, from those that were set.
Change = Callable[[Mapping[str, str]], dict[str, str] | Refused]


# How a request to alter many resources is divided.
RESOURCES: Final = Division(
    "resources",
    "responses",
    piece_elements=64,
    repeated=Repeated(("resource_type", "resource_name"), most=2),
)

# Resources that have configs in Kafka only.
_WITHOUT_CONFIGS: Final[Mapping[int, str]] = {
    ResourceType.BROKER_LOGGER: "loggers",
    ResourceType.CLIENT_METRICS: "client metrics",
    ResourceType.GROUP: "groups",
}


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
    """Alters the topics that were decided so far, and forgets them."""
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
    """The new options of a topic, or why they are refused."""
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


# Changing single options.


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs, numbered as in Kafka."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class OptionChange(NamedTuple):
    """One operation on one option; clients may send numbers that are none of `Operation`."""

    operation: int
    name: str
    value: str | None


def changed_options(
    options: NodeOptions,
    resource_type: int,
    changes: Sequence[OptionChange],
    current: Mapping[str, str],
) -> dict[str, str] | Refused:
    """The options of a resource after the operations, or why they are refused."""
    times = Counter(change.name for change in changes)
    twice = sorted(name for name, count in times.items() if count > 1)
    if twice:
        return Refused(ErrorCode.INVALID_REQUEST, f"{', '.join(twice)} is named twice")
    changed = dict(current)
    for change in changes:
        refused = _apply(options, resource_type, change, changed)
        if refused is not None:
            return refused
    return changed


def _apply(
    options: NodeOptions, resource_type: int, change: OptionChange, changed: dict[str, str]
) -> Refused | None:
    """One operation, in place."""
    operation, name, value = change
    if operation == Operation.DELETE:
        changed.pop(name, None)
        return None
    if value is None:
        return Refused(ErrorCode.INVALID_REQUEST, f"no value is given for {name}")
    if operation == Operation.SET:
        changed[name] = value
        return None
    if operation not in (Operation.APPEND, Operation.SUBTRACT):
        return Refused(ErrorCode.INVALID_REQUEST, f"there is no operation {operation} on options")
    config_class = TopicConfig if resource_type == ResourceType.TOPIC else BrokerConfig
    try:
        known = find_option(config_class, name)
    except ConfigError as error:
        return Refused(ErrorCode.INVALID_CONFIG, str(error))
    if known.type is not OptionType.LIST:
        return Refused(
            ErrorCode.INVALID_CONFIG, f"{name} is not a list: it can only be set or deleted"
        )
    default = known.render(known.default) or ""
    if resource_type == ResourceType.BROKER:
        default = value_text(options.config, name) or ""
    items = [item for item in changed.get(name, default).split(",") if item]
    given = [item.strip() for item in value.split(",")]
    if operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    changed[name] = ",".join(items)
    return None
