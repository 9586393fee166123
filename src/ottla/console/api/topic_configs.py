"""Configs of topics: of one topic, of a new one, and changing them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.client.admin_model.configs import ConfigEntry, ConfigResource
from ottla.client.admin_model.topics import CreatedTopic, NewTopic
from ottla.client.aio.admin.client import Admin
from ottla.config.options import ConfigSource
from ottla.console.access.roles import Role
from ottla.console.access.visible import Visible
from ottla.console.api.topics import no_such_topic, topic_of
from ottla.console.http.routes import Call, Route
from ottla.console.topics.change_plans import check_same
from ottla.console.topics.config_plan import (
    ConfigChange,
    ConfigPlan,
    alter_configs,
    check_changes,
    config_plan,
)
from ottla.console.topics.config_rows import (
    ConfigRow,
    config_rows,
    has_fallback,
    with_fallback,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError

# One topic


@dataclass(frozen=True)
class TopicConfigs:
    """The configs of a topic: those that it sets itself first."""

    topic: str
    set_count: int
    rows: list[ConfigRow]


async def configs(call: Call[None, None]) -> TopicConfigs:
    """The configs of a topic, asked for by the user's own connection."""
    found = topic_of(await call.visible(), call.path["topic"])
    entries = await _with_fallbacks(call, await describe(call.identity.clients.admin(), found.name))
    rows = config_rows(entries.values())
    return TopicConfigs(found.name, sum(row.is_set for row in rows), rows)


async def describe(admin: Admin, topic: str) -> dict[str, ConfigEntry]:
    """The configs of a topic as the cluster has them now."""
    resource = ConfigResource.topic(topic)
    try:
        found = await admin.describe_configs(
            [resource], include_synonyms=True, include_documentation=True
        )
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such_topic(topic) from error
        raise
    return found[resource]


async def _with_fallbacks(
    call: Call[Any, Any], entries: dict[str, ConfigEntry]
) -> dict[str, ConfigEntry]:
    """The configs with what the topic would have if it set nothing, where the cluster does not say so by itself.

    Apache Kafka lists no default among the synonyms of options that its brokers have in other units. A new topic
    would have it, which only those are told who may create one.
    """
    if call.identity.role < Role.ADMIN or all(has_fallback(each) for each in entries.values()):
        return entries
    try:
        defaults = (await _probe(call.identity.clients.admin())).configs or {}
    except OttlaError:
        return entries
    return {
        name: each if has_fallback(each) else with_fallback(each, defaults.get(name))
        for name, each in entries.items()
    }


# Change


@dataclass(frozen=True)
class AlterConfigsBody:
    """What to change; without `preview`, `state` has to be that of the preview."""

    changes: list[ConfigChange]
    preview: bool = True
    state: str | None = None


@dataclass(frozen=True)
class AlterConfigsAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: ConfigPlan
    done: str | None = None


async def alter(call: Call[None, AlterConfigsBody]) -> AlterConfigsAnswer:
    """Set configs of a topic, or take them back to what the brokers have; the cluster checks the values first."""
    body = call.body
    check_changes(body.changes)
    found = topic_of(await call.visible(), call.path["topic"])
    admin = call.identity.clients.admin()
    entries = await _with_fallbacks(call, await describe(admin, found.name))
    plan = config_plan(found.name, body.changes, entries, found.replication_factor)
    changes = {ConfigResource.topic(found.name): alter_configs(body.changes)}
    if body.preview:
        await admin.incremental_alter_configs(changes, validate_only=True)
        return AlterConfigsAnswer(plan)
    check_same(plan.state, body.state)
    await admin.incremental_alter_configs(changes)
    call.console.poller.poll_soon()
    names = ", ".join(each.name for each in body.changes)
    return AlterConfigsAnswer(plan, f"changed {names} of {found.name}")


# A new topic


@dataclass(frozen=True)
class NewTopicDefaults:
    """What a topic gets that is created without saying more. Counts are None if the cluster does not tell."""

    partition_count: int | None
    replication_factor: int | None
    broker_count: int
    configs: list[ConfigRow]
    problems: list[str]


async def defaults(call: Call[None, None]) -> NewTopicDefaults:
    """The partitions, replicas and configs that a new topic would have, with the documentation of the cluster."""
    visible = await call.visible()
    admin = call.identity.clients.admin()
    problems = []
    created = CreatedTopic("")
    try:
        created = await _probe(admin)
    except OttlaError as error:
        problems.append(f"the defaults of new topics are not known: {error}")
    documented: dict[str, ConfigEntry] = {}
    try:
        documented = await _documented(admin, visible)
    except OttlaError as error:
        problems.append(f"the documentation of configs is not known: {error}")
    entries = {**documented, **(created.configs or {})}
    return NewTopicDefaults(
        partition_count=created.num_partitions,
        replication_factor=created.replication_factor,
        broker_count=len(visible.snapshot.brokers),
        configs=config_rows(
            # What another topic has set says nothing of a new one.
            _with_documentation(each, documented.get(name))
            for name, each in entries.items()
        ),
        problems=problems,
    )


async def _probe(admin: Admin) -> CreatedTopic:
    """What the cluster would make of a topic of which only the name is known; none is created."""
    name = f"console-{secrets.token_hex(16)}"
    return (await admin.create_topics([NewTopic(name)], validate_only=True))[name]


async def _documented(admin: Admin, visible: Visible) -> dict[str, ConfigEntry]:
    """Types and documentation: the cluster tells them with the configs of a topic, so any topic will do."""
    names = sorted(visible.snapshot.topics.values(), key=lambda topic: topic.is_internal)
    if not names:
        return {}
    found = await describe(admin, names[0].name)
    return {name: _without_own_value(each) for name, each in found.items()}


def _without_own_value(entry: ConfigEntry) -> ConfigEntry:
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG
    rest = tuple(each for each in entry.synonyms if each.source is not own)
    if rest == entry.synonyms:
        return entry
    first = rest[0] if rest else None
    return replace(
        entry,
        value=None if first is None else first.value,
        source=ConfigSource.UNKNOWN if first is None else first.source,
        synonyms=rest,
    )


def _with_documentation(entry: ConfigEntry, documented: ConfigEntry | None) -> ConfigEntry:
    if documented is None:
        return entry
    return replace(
        entry,
        type=documented.type,
        documentation=documented.documentation,
        synonyms=documented.synonyms,
    )


ROUTES: Final = [
    Route(
        "GET",
        "/api/new-topic",
        defaults,
        "What a new topic would have",
        role=Role.ADMIN,
    ),
    Route("GET", "/api/topics/{topic}/configs", configs, "The configs of a topic"),
    Route(
        "POST",
        "/api/topics/{topic}/configs",
        alter,
        "Change configs of a topic",
        body=AlterConfigsBody,
        role=Role.ADMIN,
        is_preview=lambda call: call.body.preview,
    ),
]
