"""Configs of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin_model import (
    AlterConfig,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    ConfigType,
    ResourceType,
    check_config_value,
)
from ottla.client.aio.admin.requests import Calls, Question, timeout_in_seconds
from ottla.client.aio.admin.results import ANYWHERE, Answers, Verdicts
from ottla.client.aio.admin.targets import GivenNodes
from ottla.config.options import ConfigSource
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigCalls(Calls):
    """The calls about configs."""

    @timeout_in_seconds
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """All configs of resources, by name."""

        def build(
            version: int, some: list[ConfigResource], limit_ms: int
        ) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None,
                    )
                    for resource in some
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        question = Question(DescribeConfigsRequest, build, read_described)
        return await self.ask(_resources(resources), ConfigNodes(), question, timeout)

    @timeout_in_seconds
    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Replaces all configs of resources: what is not named gets its default back.

        `incremental_alter_configs` changes single ones, and is what Kafka advises since 2.3.
        """
        for values in configs.values():
            for name, value in values.items():
                check_config_value(name, value)

        def build(version: int, some: list[ConfigResource], limit_ms: int) -> AlterConfigsRequest:
            return replacing({resource: configs[resource] for resource in some}, validate_only)

        question = Question(AlterConfigsRequest, build, read_altered)
        await self.ask(_resources(configs), ConfigNodes(), question, timeout)

    @timeout_in_seconds
    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Sets, deletes, appends to or subtracts from single configs (Kafka 2.3 or later)."""
        wanted = {resource: list(some) for resource, some in changes.items()}

        def build(
            version: int, some: list[ConfigResource], limit_ms: int
        ) -> IncrementalAlterConfigsRequest:
            return changing({resource: wanted[resource] for resource in some}, validate_only)

        question = Question(IncrementalAlterConfigsRequest, build, read_altered)
        await self.ask(_resources(wanted), ConfigNodes(), question, timeout)


class ConfigNodes:
    """A broker's configs are asked of that broker, all others of any."""

    what = "resource"
    plural = "resources"
    verdicts: Verdicts = ANYWHERE

    async def find(
        self, keys: Sequence[ConfigResource], calls: Calls, timeout_ms: float
    ) -> Answers[ConfigResource, int]:
        """The node for each resource."""
        answers: Answers[ConfigResource, int] = Answers("Metadata", self.what)
        brokers = {key: int(key.name) for key in keys if is_of_one_broker(key)}
        if brokers:
            nodes = await GivenNodes().find([*brokers.values()], calls, timeout_ms)
            for key, node in brokers.items():
                if node in nodes.results:
                    answers.give(key, node)
                else:
                    answers.errors[key] = nodes.errors[node]
        others = [key for key in keys if key not in brokers]
        if others:
            node = await calls.network.any_node()
            answers.results.update(dict.fromkeys(others, node))
        return answers


def is_of_one_broker(resource: ConfigResource) -> bool:
    """Whether only that broker can answer."""
    return resource.type in _OF_ONE_BROKER and resource.name != ""


def _resources(resources: Iterable[Any]) -> list[ConfigResource]:
    if isinstance(resources, ConfigResource):
        # One alone is a tuple, which would be taken for two resources.
        return [resources]
    found = []
    for resource in resources:
        name = str(resource[1])
        if resource[0] in _OF_ONE_BROKER and name and not name.isdigit():
            raise ValueError(f"the name of a broker is its id, a number, not {name!r}")
        found.append(ConfigResource(ResourceType(resource[0]), name))
    return found


def read_described(
    response: DescribeConfigsResponse, answers: Answers[ConfigResource, dict[str, ConfigEntry]]
) -> None:
    """The configs of each resource."""
    for result in response.results:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        entries = {config.name: entry_of(config) for config in result.configs}
        answers.take(resource, entries, result.error_code, result.error_message)


def entry_of(config: DescribeConfigsResourceResult) -> ConfigEntry:
    """A config as DescribeConfigs has it."""
    return ConfigEntry(
        config.name,
        config.value,
        ConfigSource(config.config_source),
        config.is_sensitive,
        config.read_only,
        tuple(
            ConfigSynonym(
                synonym.name,
                synonym.value,
                ConfigSource(synonym.source),
            )
            for synonym in config.synonyms
        ),
        ConfigType(config.config_type),
        config.documentation,
    )


def replacing(
    configs: Mapping[ConfigResource, Mapping[str, str | None]], validate_only: bool
) -> AlterConfigsRequest:
    """The request that replaces all configs of resources."""
    return AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    alter_configs.AlterableConfig(name=name, value=value)
                    for name, value in values.items()
                ],
            )
            for resource, values in configs.items()
        ],
        validate_only=validate_only,
    )


def changing(
    changes: Mapping[ConfigResource, Sequence[AlterConfig]], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    """The request that changes single configs of resources."""
    return IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=change.name, config_operation=change.operation, value=change.value
                    )
                    for change in some
                ],
            )
            for resource, some in changes.items()
        ],
        validate_only=validate_only,
    )


def read_altered(
    response: AlterConfigsResponse | IncrementalAlterConfigsResponse,
    answers: Answers[ConfigResource, None],
) -> None:
    """Which resources were altered."""
    for result in response.responses:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        answers.take(resource, None, result.error_code, result.error_message)
