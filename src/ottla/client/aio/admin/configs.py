"""Configs of topics, brokers, groups, client metrics and loggers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.admin_model.configs import (
    AlterConfig,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    ConfigType,
    check_config_value,
)
from ottla.client.aio.admin.answers import ANYWHERE, Answers, ErrorMeanings, unsupported_error
from ottla.client.aio.admin.nodes import AnyNode, GivenNodes
from ottla.client.aio.admin.requests import (
    AdminCalls,
    AdminRequests,
    ApiCall,
    name_of,
    timeout_in_seconds,
)
from ottla.config.options import ConfigSource, ResourceType
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
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_ALL = "all"
_OF_ONE_BROKER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class ConfigCalls(AdminCalls):
    """The calls about configs."""

    @timeout_in_seconds
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        config_names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configs of resources, by name: all, or those with `config_names`, as far as the broker knows them."""
        wanted = None if config_names is None else list(config_names)

        def build(
            version: int, some: list[ConfigResource], limit_ms: int
        ) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=wanted,
                    )
                    for resource in some
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        call = ApiCall(DescribeConfigsRequest, build, _read_described)
        return await self._requests.ask(_resources(resources), ConfigNodes(), call, timeout)

    @timeout_in_seconds
    async def list_config_resources(
        self, types: Iterable[ResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """The resources of these types, or of all, that have configs (KIP-1142, Kafka 4.1 or later).

        Topics and brokers are always listed, groups and client metrics if a config was set for them. Brokers before
        Kafka 4.1 list only client metrics.
        """
        wanted = [ResourceType(each) for each in types]

        def build(version: int, keys: list[str], limit_ms: int) -> ListConfigResourcesRequest:
            if version < 1 and wanted != [ResourceType.CLIENT_METRICS]:
                raise unsupported_error(
                    name_of(ListConfigResourcesRequest),
                    "Listing other resources than client metrics",
                    "4.1",
                )
            return ListConfigResourcesRequest(resource_types=[*wanted])

        call = ApiCall(ListConfigResourcesRequest, build, _read_resources)
        nodes: AnyNode[str] = AnyNode("of", "lists")
        return (await self._requests.ask([_ALL], nodes, call, timeout))[_ALL]

    @timeout_in_seconds
    async def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Replace all configs of resources: configs that are not named get their defaults back.

        Kafka recommends `incremental_alter_configs` since 2.3, which changes single configs.
        """
        for values in configs.values():
            for name, value in values.items():
                check_config_value(name, value)

        def build(version: int, some: list[ConfigResource], limit_ms: int) -> AlterConfigsRequest:
            return _alter_request({resource: configs[resource] for resource in some}, validate_only)

        call = ApiCall(AlterConfigsRequest, build, _read_altered)
        await self._requests.ask(_resources(configs), ConfigNodes(), call, timeout)

    @timeout_in_seconds
    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Set, delete, append to or subtract from single configs (Kafka 2.3 or later)."""
        wanted = {resource: list(some) for resource, some in changes.items()}

        def build(
            version: int, some: list[ConfigResource], limit_ms: int
        ) -> IncrementalAlterConfigsRequest:
            return _incremental_request(
                {resource: wanted[resource] for resource in some}, validate_only
            )

        call = ApiCall(IncrementalAlterConfigsRequest, build, _read_altered)
        await self._requests.ask(_resources(wanted), ConfigNodes(), call, timeout)


class ConfigNodes:
    """The broker itself for a broker's configs, any node for others."""

    what = "resource"
    plural = "resources"
    meanings: ErrorMeanings = ANYWHERE

    async def find(
        self, keys: Sequence[ConfigResource], requests: AdminRequests, timeout_ms: float
    ) -> Answers[ConfigResource, int]:
        """The node for each resource."""
        answers: Answers[ConfigResource, int] = Answers("Metadata", self.what)
        brokers = {key: int(key.name) for key in keys if _is_of_one_broker(key)}
        if brokers:
            nodes = await GivenNodes().find([*brokers.values()], requests, timeout_ms)
            for key, node in brokers.items():
                if node in nodes.results:
                    answers.succeed(key, node)
                else:
                    answers.errors[key] = nodes.errors[node]
        others = [key for key in keys if key not in brokers]
        if others:
            node = await requests.network.any_node()
            answers.results.update(dict.fromkeys(others, node))
        return answers


def _is_of_one_broker(resource: ConfigResource) -> bool:
    """Whether only that broker knows the configs."""
    return resource.type in _OF_ONE_BROKER and resource.name != ""


def _resources(resources: Iterable[Any]) -> list[ConfigResource]:
    if isinstance(resources, ConfigResource):
        # A single resource is a tuple, which would be taken for two resources.
        return [resources]
    found = []
    for resource in resources:
        name = str(resource[1])
        if resource[0] in _OF_ONE_BROKER and name and not name.isdigit():
            raise ValueError(f"the name of a broker is its id, a number, not {name!r}")
        found.append(ConfigResource(ResourceType(resource[0]), name))
    return found


def _read_resources(
    response: ListConfigResourcesResponse, answers: Answers[str, list[ConfigResource]]
) -> None:
    """The resources, in the order of their types and names; types of newer brokers are left out."""
    types = frozenset(ResourceType)
    found = [
        ConfigResource(ResourceType(each.resource_type), each.resource_name)
        for each in response.config_resources
        if each.resource_type in types
    ]
    answers.complete(_ALL, sorted(found), response.error_code)


def _read_described(
    response: DescribeConfigsResponse, answers: Answers[ConfigResource, dict[str, ConfigEntry]]
) -> None:
    """The configs of each resource."""
    for result in response.results:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        entries = {config.name: _entry_of(config) for config in result.configs}
        answers.complete(resource, entries, result.error_code, result.error_message)


def _entry_of(config: DescribeConfigsResourceResult) -> ConfigEntry:
    """A config of a DescribeConfigs response."""
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


def _alter_request(
    configs: Mapping[ConfigResource, Mapping[str, str | None]], validate_only: bool
) -> AlterConfigsRequest:
    """An AlterConfigs request."""
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


def _incremental_request(
    changes: Mapping[ConfigResource, Sequence[AlterConfig]], validate_only: bool
) -> IncrementalAlterConfigsRequest:
    """An IncrementalAlterConfigs request."""
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


def _read_altered(
    response: AlterConfigsResponse | IncrementalAlterConfigsResponse,
    answers: Answers[ConfigResource, None],
) -> None:
    """The resources that were altered."""
    for result in response.responses:
        resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
        answers.complete(resource, None, result.error_code, result.error_message)
