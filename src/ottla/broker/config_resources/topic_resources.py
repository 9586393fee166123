"""Topics as resources with configs."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config_resources.option_changes import find_list_option
from ottla.broker.node import Node
from ottla.broker.topics import config_changes
from ottla.config.describe import DescribedOption
from ottla.config.topic import TopicConfig
from ottla.core.catalog import Changes
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.events import EventLog

logger = EventLog(__name__)


class TopicResources:
    """The topics of the cluster."""

    stored_together = True

    def describe(self, node: Node, name: str) -> list[DescribedOption] | Refused:
        topic = node.topics.find(name)
        return topic if isinstance(topic, Refused) else node.options.describe_topic(topic)

    def options_set(self, node: Node, name: str) -> Mapping[str, str] | Refused:
        if not name:
            return Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        topic = node.topics.find(name)
        return topic if isinstance(topic, Refused) else topic.config

    def check(self, node: Node, name: str, options: Mapping[str, str]) -> Refused | None:
        return node.options.check_topic_config(options)

    def changes(self, node: Node, changed: Mapping[str, Mapping[str, str]]) -> Changes:
        catalog = node.cluster.catalog
        changes: Changes = {}
        for name, options in changed.items():
            changes |= catalog.configure(catalog.topics[name], options)
        return changes

    def changed_to(
        self, node: Node, name: str, before: Mapping[str, str], options: Mapping[str, str]
    ) -> None:
        logger.info(
            "topic_configured",
            "topic %(topic)s configured: %(changes)s",
            topic=name,
            changes=config_changes(before, options),
        )

    def unset_list(self, node: Node, option: str) -> str | Refused:
        known = find_list_option(TopicConfig, option)
        return known if isinstance(known, Refused) else known.render(known.default) or ""
