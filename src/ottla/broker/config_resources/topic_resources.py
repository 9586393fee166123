"""Topics as resources with configs."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config_resources.option_changes import find_list_option
from ottla.broker.node import Node
from ottla.config.describe import DescribedOption
from ottla.config.topic import TopicConfig
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode


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

    def store(self, node: Node, changed: Mapping[str, Mapping[str, str]]) -> None:
        topics = node.cluster.catalog.topics
        node.topics.configure([(topics[name], options) for name, options in changed.items()])

    def unset_list(self, node: Node, option: str) -> str | Refused:
        known = find_list_option(TopicConfig, option)
        return known if isinstance(known, Refused) else known.render(known.default) or ""
