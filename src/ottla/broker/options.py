"""The options of a node: those of its start, those altered since, and the resulting ones of topics and groups."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from ottla.config.broker import BrokerConfig, DynamicOptions, topic_config, with_dynamic
from ottla.config.describe import (
    DescribedOption,
    describe_broker,
    describe_group,
    describe_topic,
)
from ottla.config.group import check_group_options, group_options, within_limits
from ottla.config.options import ConfigSource
from ottla.config.topic import TopicConfig
from ottla.core.catalog import Catalog, Topic
from ottla.core.group.requests import ConsumerGroupConfig, MigrationPolicy
from ottla.core.outcomes import Refused
from ottla.errors import ConfigError, ErrorCode


class NodeOptions:
    """`config` has the broker's options as they are now; `reload` reads the catalog again after a change."""

    def __init__(self, static_config: BrokerConfig, catalog: Catalog) -> None:
        self._static_config = static_config
        self._catalog = catalog
        self.node_id = static_config.node_id
        self.config = with_dynamic(static_config, self._dynamic)
        self._topic_configs: dict[uuid.UUID, TopicConfig] = {}
        # Of the groups that have options of their own.
        self._group_configs: dict[str, ConsumerGroupConfig] = {}
        self._common_group_config = _consumer_group_config(self.config, {})
        self._check_topics(self.config)

    @property
    def _dynamic(self) -> DynamicOptions:
        altered = self._catalog.broker_configs
        return DynamicOptions(altered.get("", {}), altered.get(str(self.node_id), {}))

    def reload(self) -> None:
        self.config = with_dynamic(self._static_config, self._dynamic)
        self._topic_configs.clear()
        self._group_configs.clear()
        self._common_group_config = _consumer_group_config(self.config, {})

    def topic_config(self, topic: Topic) -> TopicConfig:
        """A topic's effective options."""
        found = self._topic_configs.get(topic.topic_id)
        if found is None:
            found = self._topic_configs[topic.topic_id] = topic_config(self.config, topic.config)
        return found

    def forget_topic(self, topic: Topic) -> None:
        self._topic_configs.pop(topic.topic_id, None)

    def consumer_group_config(self, group_id: str) -> ConsumerGroupConfig:
        """The effective options of a group of the consumer protocol."""
        own = self._catalog.group_configs.get(group_id)
        if own is None:
            return self._common_group_config
        found = self._group_configs.get(group_id)
        if found is None:
            found = self._group_configs[group_id] = _consumer_group_config(self.config, own)
        return found

    def forget_group(self, group_id: str) -> None:
        self._group_configs.pop(group_id, None)

    # Checks.

    def check_topic_config(self, config: Mapping[str, str]) -> Refused | None:
        """Whether a topic may have these options."""
        if not config:
            return None
        try:
            topic_config(self.config, config)
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def check_group_options(self, options: Mapping[str, str]) -> Refused | None:
        """Whether a group may have these options."""
        try:
            check_group_options(self.config, options)
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def check_altered(self, name: str, altered: Mapping[str, str]) -> Refused | None:
        """Whether the options of this broker, or with an empty name of all brokers, may be altered to these."""
        of_cluster, of_node = self._dynamic
        dynamic = DynamicOptions(of_cluster, altered) if name else DynamicOptions(altered, of_node)
        try:
            self._check_topics(with_dynamic(self._static_config, dynamic))
        except ConfigError as error:
            return Refused(ErrorCode.INVALID_CONFIG, str(error))
        return None

    def _check_topics(self, config: BrokerConfig) -> None:
        """Raises ConfigError if options that a topic has set do not go together with the broker's."""
        for topic in self._catalog.topics.values():
            try:
                topic_config(config, topic.config)
            except ConfigError as error:
                raise ConfigError(f"topic '{topic.name}': {error}") from error

    # Descriptions.

    def describe(self) -> list[DescribedOption]:
        return describe_broker(self._static_config, self._dynamic)

    def describe_altered_for_all(self) -> list[DescribedOption]:
        """Only the options that were altered for all brokers, also those that a broker has altered for itself."""
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        described = []
        for option in self.describe():
            altered = tuple(one for one in option.synonyms if one.source is source)
            if altered:
                described.append(
                    option._replace(value=altered[0].value, source=source, synonyms=altered)
                )
        return described

    def describe_topic(self, topic: Topic) -> list[DescribedOption]:
        return describe_topic(self._static_config, topic.config, self._dynamic)

    def describe_group(self, group_id: str) -> list[DescribedOption]:
        own = self._catalog.group_configs.get(group_id, {})
        return describe_group(self._static_config, own, self._dynamic)


def _consumer_group_config(broker: BrokerConfig, own: Mapping[str, str]) -> ConsumerGroupConfig:
    group = within_limits(broker, group_options(broker, own))
    return ConsumerGroupConfig(
        session_timeout_ms=group.consumer_session_timeout_ms,
        heartbeat_interval_ms=group.consumer_heartbeat_interval_ms,
        assignment_interval_ms=group.consumer_assignment_interval_ms,
        max_size=broker.group_consumer_max_size,
        assignors=broker.group_consumer_assignors,
        migration_policy=MigrationPolicy(broker.group_consumer_migration_policy),
        regex_refresh_interval_ms=broker.group_consumer_regex_refresh_interval_ms,
    )
