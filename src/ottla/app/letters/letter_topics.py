"""Creating the retry topics and the dead-letter topic of a listener."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.app.letters.letter_records import MAX_HISTORY_BYTES
from ottla.app.letters.topic_names import dead_letter_topic, has_plain_name, retry_topic
from ottla.client.admin_model.configs import ConfigResource
from ottla.client.admin_model.topics import NewTopic, TopicDescription
from ottla.errors import ErrorCode, KafkaError, PartialFailureError

if TYPE_CHECKING:
    from ottla.client.admin_model.configs import ConfigEntry
    from ottla.client.aio.admin.client import Admin

_LOG: Final = logging.getLogger(__name__)
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_FOREVER_MS: Final = -1
# A record that waits for its retry must outlive an app that is down for a while.
_MIN_RETENTION_MS: Final = 7 * 24 * 3600 * 1000
_INHERITED: Final = ("min.insync.replicas",)


async def create_letter_topics(
    admin: Admin, topics: Iterable[str], group: str, *, retries: int, has_dead_letters: bool
) -> dict[str, int]:
    """Create the retry topics and dead-letter topics of a listener where they are missing.

    Returns the number of partitions of each, those included that existed. A source topic that does not exist gets none:
    call again once it does.
    """
    sources = list(topics)
    wanted: dict[str, str] = {}
    for source in sources:
        letters = [retry_topic(source, group, number) for number in range(1, retries + 1)]
        letters += [dead_letter_topic(source, group)] if has_dead_letters else []
        wanted |= dict.fromkeys(letters, source)
        if letters and not has_plain_name(source, group):
            _LOG.warning(
                "%s and group %s make a name that Kafka does not allow: the topics are %s",
                source,
                group,
                ", ".join(letters),
            )
    described = await _describe_existing(admin, [*sources, *wanted])
    missing = [name for name, source in wanted.items() if source in described]
    missing = [name for name in missing if name not in described]
    if missing:
        configs = await _configs_of(admin, {wanted[name] for name in missing})
        new = [
            _new_topic(name, described[wanted[name]], configs.get(wanted[name], {}), group)
            for name in missing
        ]
        await _create(admin, new)
        described |= await _describe_existing(admin, missing)
    # The metadata of a topic that was just created may lag behind.
    counts = {name: len(described[wanted[name]].partitions) for name in missing}
    return counts | {name: len(described[name].partitions) for name in wanted if name in described}


def _new_topic(
    name: str, source: TopicDescription, configs: Mapping[str, ConfigEntry], group: str
) -> NewTopic:
    own: dict[str, str | None] = {"cleanup.policy": "delete"}
    for option in _INHERITED:
        entry = configs.get(option)
        if entry is not None and entry.value is not None:
            own[option] = entry.value
    max_bytes = configs.get("max.message.bytes")
    if max_bytes is not None and max_bytes.value is not None:
        own["max.message.bytes"] = str(int(max_bytes.value) + MAX_HISTORY_BYTES)
    if name == dead_letter_topic(source.name, group):
        own["retention.ms"] = str(_FOREVER_MS)  # until they are replayed or dropped
    else:
        own["retention.ms"] = str(_retention_ms(configs))
    return NewTopic(
        name,
        num_partitions=len(source.partitions),
        replication_factor=len(source.partitions[0].replicas),
        configs=own,
    )


def _retention_ms(configs: Mapping[str, ConfigEntry]) -> int:
    entry = configs.get("retention.ms")
    source_ms = _MIN_RETENTION_MS if entry is None or entry.value is None else int(entry.value)
    return source_ms if source_ms == _FOREVER_MS else max(source_ms, _MIN_RETENTION_MS)


async def _configs_of(admin: Admin, topics: Iterable[str]) -> dict[str, Mapping[str, ConfigEntry]]:
    """The configs of topics; none of those that the app may not see."""
    resources = [ConfigResource.topic(name) for name in sorted(topics)]
    found: Mapping[Any, Mapping[str, ConfigEntry]]
    try:
        found = await admin.describe_configs(resources)
    except PartialFailureError as error:
        found = error.results
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        found = {}
    return {resource.name: entries for resource, entries in found.items()}


async def _create(admin: Admin, topics: list[NewTopic]) -> None:
    try:
        await admin.create_topics(topics)
    except PartialFailureError as error:
        for refused in error.errors.values():
            _check_exists(refused)
    except KafkaError as error:
        _check_exists(error)


def _check_exists(error: KafkaError) -> None:
    """Several instances of an app start at once: that another one was faster is fine."""
    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise error


async def _describe_existing(admin: Admin, names: list[str]) -> dict[str, TopicDescription]:
    try:
        return dict(await admin.describe_topics(names))
    except PartialFailureError as error:
        for refused in error.errors.values():
            if refused.code not in _ABSENT:
                raise refused from error
        found: Mapping[str, TopicDescription] = error.results
        return dict(found)
    except KafkaError as error:
        if error.code not in _ABSENT:
            raise
        return {}
