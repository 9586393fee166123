"""What our clients say where a user lacks a right: a typed error at once, which names what is not allowed.

The same cases run against our broker and Apache Kafka, as a user who has no rights but those that a case grants.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

import ottla.aio
from ottla.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    AlterConfig,
    ConfigResource,
    NewTopic,
    PatternType,
)
from ottla.errors import AbortableError, ErrorCode, FatalError, KafkaError

SOON_SECONDS = 5.0
Case = Callable[["Stage"], Coroutine[Any, Any, None]]
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DESCRIBE, DELETE, ALTER = AclOperation.DESCRIBE, AclOperation.DELETE, AclOperation.ALTER
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTIONAL_ID, CLUSTER = AclResourceType.TRANSACTIONAL_ID, AclResourceType.CLUSTER


@dataclass
class Stage:
    """A cluster: how a super user connects, and how a user without rights does."""

    admin_options: Mapping[str, Any]
    options: Mapping[str, Any]
    principal: str
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    async def topic(self) -> str:
        async with ottla.aio.Admin(self.admin_options) as admin:
            name = f"topic-{uuid.uuid4().hex[:8]}"
            await admin.create_topics([NewTopic(name, 1, 1)])
            while name not in await admin.list_topics():
                await asyncio.sleep(0.01)
            await admin.list_offsets({(name, 0): -1})
        return name

    async def grant(self, kind: AclResourceType, name: str, *operations: AclOperation) -> None:
        """Allow the user some operations, and wait until that is in force."""
        acls = [
            AclBinding(
                kind,
                name,
                PatternType.LITERAL,
                self.principal,
                "*",
                operation,
                AclPermission.ALLOW,
            )
            for operation in operations
        ]
        async with ottla.aio.Admin(self.admin_options) as admin:
            await admin.create_acls(acls)
            while not {*acls} <= {*await admin.describe_acls(AclFilter(kind, name))}:
                await asyncio.sleep(0.01)

    async def revoke(self) -> None:
        """Take all rights of the user away, and wait until that is in force."""
        async with ottla.aio.Admin(self.admin_options) as admin:
            mine = AclFilter(principal=self.principal)
            await admin.delete_acls([mine])
            while await admin.describe_acls(mine):
                await asyncio.sleep(0.01)

    def producer(self, **options: Any) -> ottla.aio.Producer:
        return ottla.aio.Producer({**self.options, "linger.ms": 0, **dotted(options)})

    def consumer(self, **options: Any) -> ottla.aio.Consumer:
        known = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        return ottla.aio.Consumer({**self.options, **known, **dotted(options)})

    def admin(self) -> ottla.aio.Admin:
        return ottla.aio.Admin(self.options)


def dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items()}


async def refused(
    call: Awaitable[object],
    code: ErrorCode,
    resource: str | None = None,
    kind: type[KafkaError] = KafkaError,
) -> None:
    """The error of a call comes soon, is of that kind and names the resource."""
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        await asyncio.wait_for(call, 20)
    took = time.monotonic() - started
    assert caught.value.code is code, caught.value
    assert resource is None or resource in str(caught.value), caught.value
    assert took < SOON_SECONDS, took


async def send_to_a_topic_that_may_not_be_seen(stage: Stage) -> None:
    topic = await stage.topic()
    async with stage.producer(enable_idempotence=False) as producer:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await refused(sent(producer, topic), code, topic, AbortableError)
        await refused(producer.partitions_for(topic), code, topic)


async def send_to_a_topic_that_may_only_be_seen(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.grant(TOPIC, topic, DESCRIBE)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with stage.producer(enable_idempotence=False) as producer:
        await refused(sent(producer, topic), code, topic, AbortableError)
    # An idempotent producer needs a topic that it may write to, or IDEMPOTENT_WRITE.
    other = await stage.topic()
    await stage.grant(TOPIC, other, WRITE)
    async with stage.producer() as producer:
        await refused(sent(producer, topic), code, topic, AbortableError)
        await sent(producer, other)
    async with stage.producer(acks=0, enable_idempotence=False) as producer:
        await asyncio.wait_for(producer.flush(), 5)


async def be_idempotent_without_a_topic(stage: Stage) -> None:
    topic = await stage.topic()
    await stage.grant(TOPIC, topic, DESCRIBE)
    async with stage.producer() as producer:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await refused(sent(producer, topic), code, None, FatalError)


async def begin_with_a_transactional_id(stage: Stage) -> None:
    name = f"id-{stage.name}"
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    async with stage.producer(transactional_id=name) as producer:
        await refused(producer.init_transactions(), code, name, FatalError)
    await stage.grant(TRANSACTIONAL_ID, name, DESCRIBE)
    async with stage.producer(transactional_id=name) as producer:
        await refused(producer.init_transactions(), code, name, FatalError)


async def write_in_a_transaction(stage: Stage) -> None:
    """The transaction can only be aborted; the next one, without the topic, is committed."""
    name, right, wrong = f"id2-{stage.name}", await stage.topic(), await stage.topic()
    await stage.grant(TRANSACTIONAL_ID, name, DESCRIBE, WRITE)
    await stage.grant(TOPIC, right, DESCRIBE, WRITE)
    await stage.grant(TOPIC, wrong, DESCRIBE)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with stage.producer(transactional_id=name) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await sent(producer, right)
        await refused(sent(producer, wrong), code, wrong)
        await refused(producer.commit_transaction(), code, wrong, AbortableError)
        await producer.abort_transaction()
        producer.begin_transaction()
        await sent(producer, right)
        await producer.commit_transaction()


async def commit_offsets_in_a_transaction(stage: Stage) -> None:
    name, topic, group = f"id3-{stage.name}", await stage.topic(), f"group3-{stage.name}"
    await stage.grant(TRANSACTIONAL_ID, name, DESCRIBE, WRITE)
    await stage.grant(TOPIC, topic, DESCRIBE, READ)
    async with stage.producer(transactional_id=name) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        offsets = {(topic, 0): 0}
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        sending = producer.send_offsets_to_transaction(offsets, group)
        await refused(sending, code, group, AbortableError)
        await producer.abort_transaction()
    hidden = await stage.topic()
    await stage.grant(GROUP, group, READ)
    async with stage.producer(transactional_id=name) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        sending = producer.send_offsets_to_transaction({(hidden, 0): 0}, group)
        await refused(sending, code, hidden, AbortableError)
        await producer.abort_transaction()


async def read_a_topic(stage: Stage) -> None:
    topic = await stage.topic()
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with stage.consumer() as consumer:
        await refused(consumer.partitions_for(topic), code, topic)
        await refused(consumer.end_offsets([(topic, 0)]), code, topic)
        consumer.assign([(topic, 0)])
        await refused(polled(consumer), code, topic)
    await stage.grant(TOPIC, topic, DESCRIBE)
    async with stage.consumer() as consumer:
        consumer.assign([(topic, 0)])
        await consumer.end_offsets([(topic, 0)])
        await refused(polled(consumer), code, topic)
        # What is not read any more is no error any more.
        other = await stage.topic()
        await stage.grant(TOPIC, other, READ)
        consumer.assign([(other, 0)])
        await consumer.poll(0.1)


async def lose_a_right_and_get_it_back(stage: Stage) -> None:
    """Both clients go on with what they may do again; nothing has to be made anew."""
    topic, group = await stage.topic(), f"group6-{stage.name}"
    await stage.grant(TOPIC, topic, READ, WRITE)
    await stage.grant(GROUP, group, READ)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    async with (
        stage.producer(enable_idempotence=False, metadata_max_age_ms=100) as producer,
        stage.consumer(group_id=group) as consumer,
    ):
        consumer.subscribe([topic])
        await sent(producer, topic)
        assert await polled(consumer)
        await stage.revoke()
        await refused(sent(producer, topic), code, topic, AbortableError)
        with pytest.raises(AbortableError, match="AUTHORIZATION_FAILED"):
            await polled(consumer)
        await stage.grant(TOPIC, topic, READ, WRITE)
        await stage.grant(GROUP, group, READ)
        await sent(producer, topic)
        assert await comes_back(consumer)


async def comes_back(consumer: ottla.aio.Consumer) -> bool:
    """Whether records come; the errors of requests from before may come first."""
    for _ in range(100):
        try:
            if await consumer.poll(0.2):
                return True
        except AbortableError:
            await asyncio.sleep(0.05)
    return False


async def join_a_group(stage: Stage) -> None:
    topic, group = await stage.topic(), f"group-{stage.name}"
    await stage.grant(TOPIC, topic, READ)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    for protocol in ("classic", "consumer"):
        async with stage.consumer(group_id=group, group_protocol=protocol) as consumer:
            consumer.subscribe([topic])
            await refused(polled(consumer), code, group)
        async with stage.consumer(group_id=group, group_protocol=protocol) as consumer:
            consumer.assign([(topic, 0)])
            await refused(consumer.committed([(topic, 0)]), code, group)
            await refused(consumer.commit({(topic, 0): 0}), code, group)
    async with stage.consumer(group_id=group) as consumer:
        consumer.assign([(topic, 0)])
        await refused(polled(consumer), code, group)


async def subscribe_to_a_topic(stage: Stage) -> None:
    topic, group = await stage.topic(), f"group4-{stage.name}"
    await stage.grant(GROUP, group, READ)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for protocol in ("classic", "consumer"):
        async with stage.consumer(group_id=group, group_protocol=protocol) as consumer:
            consumer.subscribe([topic])
            await refused(polled(consumer), code, topic)
        async with stage.consumer(group_id=group, group_protocol=protocol) as consumer:
            consumer.assign([(topic, 0)])
            await refused(consumer.commit({(topic, 0): 0}), code, topic)


async def administer(stage: Stage) -> None:
    topic, group = await stage.topic(), f"group5-{stage.name}"
    denied_topic = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    denied_group = ErrorCode.GROUP_AUTHORIZATION_FAILED
    denied_id = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    name = f"id4-{stage.name}"
    change = {ConfigResource.topic(topic): [AlterConfig("retention.ms", "1")]}
    acl = AclBinding(TOPIC, topic, PatternType.LITERAL, "User:x", "*", READ, AclPermission.ALLOW)
    async with stage.admin() as admin:
        assert await admin.list_topics() == {}
        assert await admin.list_groups() == {}
        assert (await admin.describe_cluster()).nodes
        await refused(admin.describe_topics([topic]), denied_topic, topic)
        await refused(admin.create_topics([NewTopic("new-topic", 1, 1)]), denied_topic, "new-topic")
        await refused(admin.delete_topics([topic]), denied_topic, topic)
        await refused(admin.create_partitions({topic: 2}), denied_topic, topic)
        await refused(admin.delete_records({(topic, 0): 0}), denied_topic, topic)
        await refused(admin.list_offsets({(topic, 0): -1}), denied_topic, topic)
        await refused(admin.describe_producers([(topic, 0)]), denied_topic, topic)
        await refused(admin.describe_configs([ConfigResource.topic(topic)]), denied_topic, topic)
        await refused(admin.incremental_alter_configs(change), denied_topic, topic)
        await refused(admin.describe_consumer_groups([group]), denied_group, group)
        await refused(admin.delete_consumer_groups([group]), denied_group, group)
        await refused(admin.list_consumer_group_offsets([group]), denied_group, group)
        offsets = {(topic, 0): 0}
        await refused(admin.alter_consumer_group_offsets(group, offsets), denied_group, group)
        deletion = admin.delete_consumer_group_offsets(group, [(topic, 0)])
        await refused(deletion, denied_group, group)
        await refused(admin.describe_transactions([name]), denied_id, name)
        await refused(admin.fence_producers([name]), denied_id, name)
        await refused(admin.describe_log_dirs(), denied)
        await refused(admin.describe_acls(), denied)
        await refused(admin.create_acls([acl]), denied)
        await refused(admin.delete_acls([acl.to_filter()]), denied)
        await refused(admin.describe_user_scram_credentials(), denied)
        await refused(admin.describe_client_quotas(), denied)
        await refused(admin.describe_metadata_quorum(), denied)
        broker = (await admin.describe_cluster()).nodes[0].id
        await refused(admin.describe_configs([ConfigResource.broker(broker)]), denied, str(broker))


async def play(case: Case, stage: Stage) -> None:
    """Run a case; the user has no rights at its beginning."""
    await stage.revoke()
    await asyncio.wait_for(case(stage), 60)


async def sent(producer: ottla.aio.Producer, topic: str) -> object:
    return await (await producer.send(topic, b"espresso"))


async def polled(consumer: ottla.aio.Consumer) -> object:
    """Poll until an error comes, or records."""
    for _ in range(100):
        records = await consumer.poll(0.2)
        if records:
            return records
    return None


CASES: tuple[Case, ...] = (
    send_to_a_topic_that_may_not_be_seen,
    send_to_a_topic_that_may_only_be_seen,
    be_idempotent_without_a_topic,
    begin_with_a_transactional_id,
    write_in_a_transaction,
    commit_offsets_in_a_transaction,
    read_a_topic,
    lose_a_right_and_get_it_back,
    join_a_group,
    subscribe_to_a_topic,
    administer,
)
