"""The answers of DescribeConfigs: each option with its value and the source of the value."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.config.broker import (
    NOTHING_DYNAMIC,
    BrokerConfig,
    DynamicOptions,
    topic_config,
    with_dynamic,
)
from ottla.config.group import GroupOptions, group_options
from ottla.config.options import (
    Config,
    ConfigOption,
    ConfigSource,
    OptionType,
    find_option,
    options_of,
    value_text,
)
from ottla.config.topic import TopicConfig


class SourcedValue(NamedTuple):
    """A value of an option and its source; the first of a list takes effect."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedOption(NamedTuple):
    """An option as DescribeConfigs shows it."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: OptionType
    synonyms: tuple[SourcedValue, ...]
    documentation: str

    @property
    def is_default(self) -> bool:
        """Whether the option has its default, because it was not set."""
        return self.source is ConfigSource.DEFAULT_CONFIG


def describe_topic(
    static: BrokerConfig,
    overrides: Mapping[str, str],
    dynamic: DynamicOptions = NOTHING_DYNAMIC,
) -> list[DescribedOption]:
    """Every option of a topic with these overrides on a broker that was started as `static`."""
    effective = topic_config(with_dynamic(static, dynamic), overrides)
    described = []
    for name, known in options_of(TopicConfig).items():
        value = value_text(effective, name)
        sources = _inherited_sources(static, dynamic, known)
        if name in overrides:
            sources.insert(0, SourcedValue(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        described.append(_described(known, value, sources))
    return described


def describe_group(
    static: BrokerConfig,
    overrides: Mapping[str, str],
    dynamic: DynamicOptions = NOTHING_DYNAMIC,
) -> list[DescribedOption]:
    """Every option of a group with these overrides on a broker that was started as `static`."""
    effective = group_options(with_dynamic(static, dynamic), overrides)
    described = []
    for name, known in options_of(GroupOptions).items():
        value = value_text(effective, name)
        sources = _inherited_sources(static, dynamic, known)
        if not known.synonyms:
            sources = [SourcedValue(name, known.render(known.default), ConfigSource.DEFAULT_CONFIG)]
        if name in overrides:
            sources.insert(0, SourcedValue(name, value, ConfigSource.DYNAMIC_GROUP_CONFIG))
        described.append(_described(known, value, sources))
    return described


def describe_broker(
    static: BrokerConfig, dynamic: DynamicOptions = NOTHING_DYNAMIC
) -> list[DescribedOption]:
    """Every option of a broker that was started as `static`."""
    effective = with_dynamic(static, dynamic)
    described = []
    for name in (*options_of(BrokerConfig), *sorted(effective.scoped)):
        known = find_option(BrokerConfig, name)
        value = value_text(effective, name)
        # An option without a value, such as log.retention.ms, is described without synonyms.
        names = _with_fallbacks(name) if value is not None else ()
        described.append(_described(known, value, list(_broker_sources(static, dynamic, names))))
    return described


def describe_resource(
    config: Config, given: Container[str], source: ConfigSource
) -> list[DescribedOption]:
    """Every option of a resource whose options have no other source than `source`, for those in `given`."""
    described = []
    for name, known in options_of(type(config)).items():
        value = value_text(config, name)
        sources = [SourcedValue(name, value, source)] if name in given else []
        described.append(_described(known, value, sources))
    return described


def _with_fallbacks(name: str) -> tuple[str, ...]:
    """A broker option, and the ones that apply if it is not set."""
    for topic_option in options_of(TopicConfig).values():
        if name in topic_option.synonyms:
            return topic_option.synonyms[topic_option.synonyms.index(name) :]
    return (name,)


def _inherited_sources(
    static: BrokerConfig, dynamic: DynamicOptions, known: ConfigOption
) -> list[SourcedValue]:
    """The sources of an option that is not set; the broker has no option of its own for one without effect."""
    if known.has_effect:
        return list(_broker_sources(static, dynamic, known.synonyms))
    return [
        SourcedValue(synonym, known.render(known.default), ConfigSource.DEFAULT_CONFIG)
        for synonym in known.synonyms
    ]


def _broker_sources(
    static: BrokerConfig, dynamic: DynamicOptions, names: Sequence[str]
) -> Iterator[SourcedValue]:
    """The sources of the named options, in order of precedence."""
    for name in names:
        if name in dynamic.of_node:
            yield SourcedValue(name, dynamic.of_node[name], ConfigSource.DYNAMIC_BROKER_CONFIG)
        if name in dynamic.of_cluster:
            text = dynamic.of_cluster[name]
            yield SourcedValue(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        if name in static.given:
            yield SourcedValue(name, value_text(static, name), ConfigSource.STATIC_BROKER_CONFIG)
    for name in names:
        known = find_option(BrokerConfig, name)
        if known.default is not None:
            yield SourcedValue(name, known.render(known.default), ConfigSource.DEFAULT_CONFIG)


def _described(
    known: ConfigOption, value: str | None, sources: Sequence[SourcedValue]
) -> DescribedOption:
    shown = [s._replace(value=None) for s in sources] if known.sensitive else sources
    return DescribedOption(
        name=known.name,
        value=None if known.sensitive else value,
        source=sources[0].source if sources else ConfigSource.DEFAULT_CONFIG,
        read_only=not known.dynamic,
        sensitive=known.sensitive,
        type=known.type,
        synonyms=tuple(shown),
        documentation=known.documentation,
    )
