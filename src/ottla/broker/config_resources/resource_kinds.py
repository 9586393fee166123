"""The types of resources that have configs: one row for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.broker.config_resources.broker_resources import BrokerResources
from ottla.broker.config_resources.client_metrics_resources import ClientMetricsResources
from ottla.broker.config_resources.group_resources import GroupResources
from ottla.broker.config_resources.logger_resources import LoggerResources
from ottla.broker.config_resources.resource_kind import ResourceKind
from ottla.broker.config_resources.topic_resources import TopicResources
from ottla.config.options import ResourceType
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

RESOURCE_KINDS: Final[Mapping[int, ResourceKind]] = {
    ResourceType.TOPIC: TopicResources(),
    ResourceType.BROKER: BrokerResources(),
    ResourceType.BROKER_LOGGER: LoggerResources(),
    ResourceType.CLIENT_METRICS: ClientMetricsResources(),
    ResourceType.GROUP: GroupResources(),
}


def find_kind(resource_type: int) -> ResourceKind | Refused:
    """The kind of resource with this number."""
    found = RESOURCE_KINDS.get(resource_type)
    if found is not None:
        return found
    return Refused(
        ErrorCode.INVALID_REQUEST,
        f"this broker has no configs of resources of type {resource_type}",
    )
