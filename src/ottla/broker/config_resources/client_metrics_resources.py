"""Subscriptions to metrics of clients as resources with configs (KIP-714): one without options does not exist."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config_resources.option_changes import find_list_option
from ottla.broker.node import Node
from ottla.broker.telemetry.subscription import MAX_SUBSCRIPTIONS, check_subscription
from ottla.broker.topics import config_changes
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.describe import DescribedOption, describe_resource
from ottla.config.options import ConfigSource
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog

logger = EventLog(__name__)


class ClientMetricsResources:
    """The subscriptions of the cluster."""

    stored_together = False

    def describe(self, node: Node, name: str) -> list[DescribedOption] | Refused:
        """Every option, also of a subscription that does not exist: all have their defaults then, as in Kafka."""
        if not name:
            return Refused(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        options = node.cluster.catalog.client_metrics.get(name, {})
        return describe_resource(
            ClientMetricsConfig.read(options), options, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
        )

    def options_set(self, node: Node, name: str) -> Mapping[str, str] | Refused:
        return node.cluster.catalog.client_metrics.get(name, {})

    def check(self, node: Node, name: str, options: Mapping[str, str]) -> Refused | None:
        known = node.cluster.catalog.client_metrics
        if options and name not in known and len(known) >= MAX_SUBSCRIPTIONS:
            return Refused(
                ErrorCode.INVALID_REQUEST,
                f"there are {len(known)} subscriptions to client metrics: remove some first",
            )
        return check_subscription(name, options)

    def changes(self, node: Node, changed: Mapping[str, Mapping[str, str]]) -> Changes:
        catalog = node.cluster.catalog
        ((name, options),) = changed.items()  # not stored together
        if not options and name not in catalog.client_metrics:
            return {}  # it does not exist, and is not created
        return catalog.configure_client_metrics(name, options)

    def changed_to(
        self, node: Node, name: str, before: Mapping[str, str], options: Mapping[str, str]
    ) -> None:
        if before or options:
            logger.info(
                "client_metrics_configured",
                "subscription %(subscription)s to client metrics configured: %(changes)s",
                subscription=name,
                changes=config_changes(before, options),
            )

    def unset_list(self, node: Node, option: str) -> str | Refused:
        known = find_list_option(ClientMetricsConfig, option)
        return known if isinstance(known, Refused) else known.render(known.default) or ""
