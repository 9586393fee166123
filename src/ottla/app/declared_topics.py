"""Topics that an app declares: created when they are missing, compared when they are not."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.client.admin_model.configs import ConfigResource
from ottla.client.admin_model.topics import NewTopic, TopicDescription
from ottla.client.aio.admin.client import Admin
from ottla.errors import ErrorCode, KafkaError, PartialFailureError

log = logging.getLogger("ottla.app")


@dataclass(frozen=True)
class DeclaredTopic:
    """A topic as `app.topic(…)` declares it; None leaves it to the broker."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


async def create_missing(admin: Admin, topics: Iterable[DeclaredTopic]) -> None:
    """Create topics; several instances of an app may do so at once."""
    new = [
        NewTopic(each.name, each.partitions, each.replication_factor, dict(each.config))
        for each in topics
    ]
    if not new:
        return
    try:
        await admin.create_topics(new)
    except PartialFailureError as error:
        for refused in error.errors.values():
            _accept_existing(refused)
    except KafkaError as error:
        _accept_existing(error)


def _accept_existing(error: KafkaError) -> None:
    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise error


async def existing_topics(admin: Admin) -> set[str]:
    """The names of all topics."""
    return set(await admin.list_topics(list_internal=True))


async def tell_differences(admin: Admin, topics: list[DeclaredTopic]) -> list[str]:
    """What existing topics have other than declared; logged, never changed."""
    if not topics:
        return []
    described: Mapping[str, TopicDescription] = await admin.describe_topics(
        [each.name for each in topics]
    )
    resources = [ConfigResource.topic(each.name) for each in topics if each.config]
    configs = await admin.describe_configs(resources) if resources else {}
    told = []
    for each in topics:
        count = len(described[each.name].partitions)
        if each.partitions is not None and count != each.partitions:
            told.append(f"topic {each.name} has {count} partitions, declared are {each.partitions}")
        entries = configs.get(ConfigResource.topic(each.name), {})
        for option, wanted in each.config.items():
            entry = entries.get(option)
            found = None if entry is None else entry.value
            if found != wanted:
                told.append(f"topic {each.name} has {option}={found}, declared is {wanted}")
    for line in told:
        log.warning("%s; it stays as it is", line)
    return told
