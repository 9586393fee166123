"""Creating and deleting topics, adding partitions, deleting records: each with a preview of what it does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from uuid import UUID

from ottla.client.admin_model.acls import AclOperation
from ottla.client.admin_model.configs import ConfigResource
from ottla.client.admin_model.offsets import OffsetSpec
from ottla.client.admin_model.topics import NewTopic, TopicDescription
from ottla.client.aio.admin.client import Admin
from ottla.console.access.roles import Role
from ottla.console.api.topic_configs import describe as describe_configs
from ottla.console.api.topics import no_such_topic, topic_of
from ottla.console.cluster.snapshot import ClusterSnapshot
from ottla.console.console import Console
from ottla.console.http.errors import ApiError, bad_request
from ottla.console.http.routes import Call, Route
from ottla.console.topics.change_plans import (
    CreatePlan,
    DeletePlan,
    DeleteRecordsPlan,
    PartitionsPlan,
    check_same,
    counted,
    create_plan,
    delete_plan,
    delete_records_plan,
    partitions_plan,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.model import TopicPartition

MAX_CONFIGS: Final = 100
MAX_PARTITIONS: Final = 100_000
MAX_DELETED_PARTITIONS: Final = 10_000
# After this time the page shows the change when the poller finds it.
SEEN_SECONDS: Final = 3.0
SEEN_PAUSE_SECONDS: Final = 0.05

# Create


@dataclass(frozen=True)
class CreateBody:
    """A topic to create; null stands for the cluster's default."""

    name: str
    partition_count: int | None = None
    replication_factor: int | None = None
    configs: dict[str, str] = field(default_factory=dict)
    preview: bool = True


@dataclass(frozen=True)
class CreateAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: CreatePlan
    done: str | None = None


async def create(call: Call[None, CreateBody]) -> CreateAnswer:
    """Create a topic; the cluster checks it first."""
    body = call.body
    _check_new(body)
    admin = call.identity.clients.admin()
    wanted = NewTopic(body.name, body.partition_count, body.replication_factor, body.configs)
    created = (await admin.create_topics([wanted], validate_only=body.preview))[body.name]
    plan = create_plan(created, body.configs)
    if body.preview:
        return CreateAnswer(plan)
    await wait_until_polled(call.console, lambda snapshot: body.name in snapshot.topics)
    return CreateAnswer(plan, f"created {body.name}")


def _check_new(body: CreateBody) -> None:
    if not body.name:
        raise bad_request("a topic needs a name")
    for what, number in (
        ("partition_count", body.partition_count),
        ("replication_factor", body.replication_factor),
    ):
        if number is not None and not 0 < number <= MAX_PARTITIONS:
            raise bad_request(f"{what} is 1 to {MAX_PARTITIONS:,}, or null for the default")
    if len(body.configs) > MAX_CONFIGS:
        raise bad_request(f"give {MAX_CONFIGS} configs at most")


# Delete


@dataclass(frozen=True)
class DeleteBody:
    """Without `preview`, `topic_id` has to be that of the preview."""

    preview: bool = True
    topic_id: str | None = None


@dataclass(frozen=True)
class DeleteAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: DeletePlan
    done: str | None = None


async def delete(call: Call[None, DeleteBody]) -> DeleteAnswer:
    """Delete a topic with all its records."""
    body, console = call.body, call.console
    visible = await call.visible()
    found = topic_of(visible, call.path["topic"])
    if found.is_internal:
        raise bad_request(
            f"{found.name} is internal: the console does not delete it",
            "groups and transactions of the whole cluster are kept there",
        )
    admin = call.identity.clients.admin()
    description = await describe_for(admin, found.name, AclOperation.DELETE)
    plan = delete_plan(
        description,
        await _record_count(admin, description),
        visible.snapshot,
        is_created_on_demand=await _is_created_on_demand(admin, visible.snapshot),
    )
    if body.preview:
        return DeleteAnswer(plan)
    check_same(plan.topic_id, body.topic_id)
    topic_id = description.topic_id
    # By its id no other topic of this name can be meant.
    await admin.delete_topics([found.name] if topic_id is None else [topic_id])
    await wait_until_polled(console, lambda snapshot: _id_of(snapshot, found.name) != topic_id)
    return DeleteAnswer(plan, f"deleted {found.name}")


def _id_of(snapshot: ClusterSnapshot, name: str) -> UUID | None:
    found = snapshot.topics.get(name)
    return None if found is None else found.topic_id


async def describe_for(admin: Admin, name: str, needed: AclOperation) -> TopicDescription:
    """The topic as the cluster has it now; an error if the user may not do what is needed."""
    try:
        found = await admin.describe_topics([name], include_authorized_operations=True)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such_topic(name) from error
        raise
    description = found[name]
    allowed = description.authorized_operations
    if allowed is not None and needed not in allowed:
        raise ApiError(
            HTTPStatus.FORBIDDEN,
            f"you have no right to {needed.name.lower()} {name}",
            "an ACL of the cluster is missing",
        )
    return description


async def _record_count(admin: Admin, description: TopicDescription) -> int | None:
    """The offsets between starts and ends now; None if a partition does not answer."""
    keys = [
        TopicPartition(description.name, each.partition)
        for each in description.partitions
        if each.leader is not None
    ]
    if len(keys) < len(description.partitions):
        return None
    try:
        starts, ends = await _offsets(admin, keys)
    except OttlaError:
        return None
    return sum(ends[key] - starts[key] for key in keys)


async def _offsets(
    admin: Admin, keys: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The starts and the ends of partitions."""
    wanted = list(keys)
    starts, ends = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.EARLIEST)),
        admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST)),
    )
    return (
        {key: each.offset for key, each in starts.items()},
        {key: each.offset for key, each in ends.items()},
    )


async def _is_created_on_demand(admin: Admin, snapshot: ClusterSnapshot) -> bool:
    """Whether the cluster creates topics that clients ask for; no if the user may not see that."""
    name = "auto.create.topics.enable"
    broker = min(snapshot.brokers, default=None)
    if broker is None:
        return False
    resource = ConfigResource.broker(broker)
    try:
        found = await admin.describe_configs([resource], config_names=[name])
    except OttlaError:
        return False
    entry = found[resource].get(name)
    return entry is not None and entry.value == "true"


# More partitions


@dataclass(frozen=True)
class PartitionsBody:
    """The new number of partitions; without `preview`, `before_count` has to be that of the preview."""

    total_count: int
    preview: bool = True
    before_count: int | None = None


@dataclass(frozen=True)
class PartitionsAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: PartitionsPlan
    done: str | None = None


async def add_partitions(call: Call[None, PartitionsBody]) -> PartitionsAnswer:
    """Add partitions to a topic; the cluster checks it first."""
    body = call.body
    if not 0 < body.total_count <= MAX_PARTITIONS:
        raise bad_request(f"total_count is 1 to {MAX_PARTITIONS:,}")
    visible = await call.visible()
    found = topic_of(visible, call.path["topic"])
    admin = call.identity.clients.admin()
    description = await describe_for(admin, found.name, AclOperation.ALTER)
    before = len(description.partitions)
    policy = await cleanup_policy_of(admin, found.name)
    plan = partitions_plan(found.name, before, body.total_count, policy, visible.snapshot)
    if body.preview:
        await admin.create_partitions({found.name: body.total_count}, validate_only=True)
        return PartitionsAnswer(plan)
    check_same(plan.before_count, body.before_count)
    await admin.create_partitions({found.name: body.total_count})

    def is_seen(snapshot: ClusterSnapshot) -> bool:
        topic = snapshot.topics.get(found.name)
        return topic is None or len(topic.partitions) > before

    await wait_until_polled(call.console, is_seen)
    return PartitionsAnswer(plan, f"{found.name} has {counted(body.total_count, 'partition')} now")


async def cleanup_policy_of(admin: Admin, topic: str) -> str | None:
    """The topic's cleanup.policy; None if the user may not see it."""
    try:
        entry = (await describe_configs(admin, topic)).get("cleanup.policy")
    except OttlaError:
        return None
    return None if entry is None else entry.value


# Delete records


@dataclass(frozen=True)
class RecordsBefore:
    """The offset before which records of a partition are deleted; -1 deletes all."""

    partition: int
    before_offset: int


@dataclass(frozen=True)
class DeleteRecordsBody:
    """Which records to delete. A preview of -1 says which offset that is now: give that one to delete them."""

    partitions: list[RecordsBefore]
    preview: bool = True


@dataclass(frozen=True)
class DeleteRecordsAnswer:
    """The plan; and what was done, if it was not a preview."""

    plan: DeleteRecordsPlan
    done: str | None = None


async def delete_records(call: Call[None, DeleteRecordsBody]) -> DeleteRecordsAnswer:
    """Delete the records of partitions before offsets."""
    body = call.body
    if not 0 < len(body.partitions) <= MAX_DELETED_PARTITIONS:
        raise bad_request(f"give 1 to {MAX_DELETED_PARTITIONS:,} partitions")
    wanted = {each.partition: each.before_offset for each in body.partitions}
    if len(wanted) < len(body.partitions):
        raise bad_request("a partition is given twice")
    visible = await call.visible()
    found = topic_of(visible, call.path["topic"])
    unknown = sorted(set(wanted) - {each.partition for each in found.partitions})
    if unknown:
        raise bad_request(f"{found.name} has no partition {unknown[0]}")
    if found.is_internal:
        raise bad_request(f"{found.name} is internal: the console does not delete its records")
    admin = call.identity.clients.admin()
    await describe_for(admin, found.name, AclOperation.DELETE)
    policy = await cleanup_policy_of(admin, found.name)
    if policy is not None and "delete" not in policy:
        raise bad_request(
            f"{found.name} is compacted: the cluster deletes no records of topics whose cleanup.policy is {policy}",
            "write a tombstone for a key, or add delete to cleanup.policy",
        )
    starts, ends = await _offsets(admin, (TopicPartition(found.name, each) for each in wanted))
    plan = delete_records_plan(found.name, wanted, starts, ends, visible.snapshot)
    if body.preview:
        return DeleteRecordsAnswer(plan)
    done = await admin.delete_records(
        {
            TopicPartition(found.name, each.partition): each.before_offset
            for each in plan.partitions
            if each.offset_count
        }
    )
    call.console.poller.poll_soon()
    return DeleteRecordsAnswer(
        plan,
        f"deleted {counted(plan.offset_count, 'offset')} of {found.name} in {counted(len(done), 'partition')}",
    )


async def wait_until_polled(console: Console, is_seen: Callable[[ClusterSnapshot], bool]) -> None:
    """Wait for a snapshot that has the change, so that the page shows it at once."""
    deadline = time.monotonic() + SEEN_SECONDS
    asked_version = -1
    while time.monotonic() < deadline:
        snapshot = console.poller.snapshot
        if snapshot is not None and is_seen(snapshot):
            return
        version = 0 if snapshot is None else snapshot.version
        if version != asked_version:
            # A look that had begun before does not have it.
            console.poller.poll_soon()
            asked_version = version
        await asyncio.sleep(SEEN_PAUSE_SECONDS)


ROUTES: Final = [
    Route(
        "POST",
        "/api/topics",
        create,
        "Create a topic",
        body=CreateBody,
        role=Role.ADMIN,
        is_preview=lambda call: call.body.preview,
    ),
    Route(
        "POST",
        "/api/topics/{topic}/delete",
        delete,
        "Delete a topic",
        body=DeleteBody,
        role=Role.ADMIN,
        is_preview=lambda call: call.body.preview,
    ),
    Route(
        "POST",
        "/api/topics/{topic}/partitions",
        add_partitions,
        "Add partitions to a topic",
        body=PartitionsBody,
        role=Role.ADMIN,
        is_preview=lambda call: call.body.preview,
    ),
    Route(
        "POST",
        "/api/topics/{topic}/delete-records",
        delete_records,
        "Delete the first records of partitions",
        body=DeleteRecordsBody,
        role=Role.OPERATOR,
        is_preview=lambda call: call.body.preview,
    ),
]
