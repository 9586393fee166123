"""Brokers as resources with configs: the name is a node id, or empty for all brokers."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config_resources.option_changes import find_list_option
from ottla.broker.node import Node
from ottla.broker.topics import config_changes
from ottla.config.broker import BrokerConfig
from ottla.config.describe import DescribedOption
from ottla.config.options import value_text
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog

logger = EventLog(__name__)


class BrokerResources:
    """This broker, and all brokers together."""

    stored_together = False

    def describe(self, node: Node, name: str) -> list[DescribedOption] | Refused:
        refused = _check_name(node, name)
        if refused is not None:
            return refused
        return node.options.describe() if name else node.options.describe_altered_for_all()

    def options_set(self, node: Node, name: str) -> Mapping[str, str] | Refused:
        return _check_name(node, name) or node.cluster.catalog.broker_configs.get(name, {})

    def check(self, node: Node, name: str, options: Mapping[str, str]) -> Refused | None:
        return node.cluster.check_broker_config(name, options)

    def changes(self, node: Node, changed: Mapping[str, Mapping[str, str]]) -> Changes:
        ((name, options),) = changed.items()  # not stored together
        return node.cluster.catalog.configure_broker(name, options)

    def changed_to(
        self, node: Node, name: str, before: Mapping[str, str], options: Mapping[str, str]
    ) -> None:
        logger.info(
            "broker_configured",
            "broker %(broker)s configured: %(changes)s",
            broker=name or "(all)",
            changes=config_changes(before, options),
        )

    def unset_list(self, node: Node, option: str) -> str | Refused:
        known = find_list_option(BrokerConfig, option)
        return (
            known if isinstance(known, Refused) else value_text(node.options.config, option) or ""
        )


def _check_name(node: Node, name: str) -> Refused | None:
    if name and name != str(node.node_id):
        return Refused(ErrorCode.INVALID_REQUEST, f"this is broker {node.node_id}, not '{name}'")
    return None
