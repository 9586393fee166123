"""Virtual members: what a consumer of the new protocol, a classic consumer and a transactional producer say."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.broker import group_requests as ask
from tests.broker import txn_requests as transactions
from tests.broker.group_requests import Joined
from tests.groups.kafka_answers.stage import Stage, Topic

from ottla.errors import ErrorCode
from ottla.wire.compile import encode_stored
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from ottla.wire.stored import consumer_protocol
from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
REBALANCE_TIMEOUT_MS = 300_000
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 9, 5, 4
UNSAID = object()

# Partitions by topic, as a script writes them.
Partitions = Mapping[Topic, Sequence[int]]
Offsets = Mapping[Topic, Mapping[int, int]]


def shown_partitions(partitions: Partitions) -> str:
    shown = (f"{topic.title}{list(numbers)}" for topic, numbers in partitions.items())
    return " ".join(sorted(shown)) or "-"


class Committer:
    """What can be done with offsets by anyone; a member says who it is."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.connection = stage.connect()

    def say(self, step: str, answer: Any) -> Any:
        return self.stage.say(f"{self.name} {step}", answer)

    def identity(self) -> tuple[str, int, str | None]:
        """Member id, epoch or generation, instance id."""
        return "", -1, None

    def _who(
        self, member_id: str | None, epoch: int | None, instance: Any
    ) -> tuple[str, int, str | None]:
        own_id, own_epoch, own_instance = self.identity()
        return (
            own_id if member_id is None else member_id,
            own_epoch if epoch is None else epoch,
            own_instance if instance is UNSAID else instance,
        )

    def commit(
        self,
        offsets: Offsets,
        *,
        version: int = 10,
        epoch: int | None = None,
        member_id: str | None = None,
        instance: Any = UNSAID,
        metadata: str | None = "",
        topic_ids: Mapping[Topic, uuid.UUID] | None = None,
    ) -> Any:
        who = self._who(member_id, epoch, instance)
        positions = {
            (topic.name, number): ask.Position(offset, metadata)
            for topic, numbers in offsets.items()
            for number, offset in numbers.items()
        }
        ids = {topic.name: (topic_ids or {}).get(topic, topic.topic_id) for topic in offsets}
        request: OffsetCommitRequest = ask.commit_request(
            self.stage.group,
            positions,
            member=Joined(self.stage.group, who[0], who[1], who[2]),
            topic_ids=ids if version >= ask.TOPIC_IDS_SINCE else None,
        )
        answer = self.connection.call(request, OffsetCommitResponse, version)
        return self.say(f"commits v{version} {_shown_who(who)}", answer)

    def fetch_offsets(
        self,
        partitions: Partitions | None = None,
        *,
        version: int = 10,
        epoch: int | None = None,
        member_id: Any = UNSAID,
        require_stable: bool = False,
        topic_ids: Mapping[Topic, uuid.UUID] | None = None,
    ) -> Any:
        """With the member's own id and epoch, unless something else is given."""
        own_id, own_epoch, _ = self.identity()
        given_id = (own_id or None) if member_id is UNSAID else member_id
        given_epoch = own_epoch if epoch is None else epoch
        by_id = version >= ask.TOPIC_IDS_SINCE
        topics = (
            None
            if partitions is None
            else [
                OffsetFetchRequestTopics(
                    topic_id=(topic_ids or {}).get(topic, topic.topic_id),
                    partition_indexes=list(numbers),
                )
                if by_id
                else OffsetFetchRequestTopics(name=topic.name, partition_indexes=list(numbers))
                for topic, numbers in partitions.items()
            ]
        )
        group = OffsetFetchRequestGroup(
            group_id=self.stage.group,
            member_id=given_id,
            member_epoch=given_epoch,
            topics=topics,
        )
        request = OffsetFetchRequest(groups=[group], require_stable=require_stable)
        answer = self.connection.call(request, OffsetFetchResponse, version)
        stable = " stable ones" if require_stable else ""
        who = f"as {given_id} in {given_epoch}" if version >= 9 else ""
        return self.say(f"fetches{stable} offsets v{version} {who}", answer)


def _shown_who(who: tuple[str, int, str | None]) -> str:
    member_id, epoch, instance = who
    named = f"as {member_id or 'nobody'} in {epoch}"
    return named if instance is None else f"{named} with instance {instance}"


class Consumer(Committer):
    """A member of the new protocol. It remembers what the coordinator told it last, as a client does."""

    def __init__(self, stage: Stage, name: str, instance: str | None = None) -> None:
        super().__init__(stage, name)
        self.member_id = name
        self.instance = instance
        self.epoch = JOIN
        self.assigned: dict[Topic, list[int]] = {}

    def identity(self) -> tuple[str, int, str | None]:
        return self.member_id, self.epoch, self.instance

    def beat(
        self,
        *,
        epoch: int | None = None,
        owned: Partitions | None = None,
        topics: Sequence[Topic | str] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rack: str | None = None,
        rebalance_timeout_ms: int = -1,
        member_id: str | None = None,
        instance: Any = UNSAID,
        group: str | None = None,
        version: int = 1,
    ) -> Any:
        """One heartbeat with what is given, and nothing else."""
        said = self.instance if instance is UNSAID else instance
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.stage.group if group is None else group,
            member_id=self.member_id if member_id is None else member_id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=said,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_timeout_ms,
            subscribed_topic_names=None if topics is None else [_name(topic) for topic in topics],
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=None
            if owned is None
            else [
                TopicPartitions(topic_id=topic.topic_id, partitions=list(numbers))
                for topic, numbers in owned.items()
            ],
        )
        answer = self.connection.call(request, ConsumerGroupHeartbeatResponse, version)
        if member_id is None and answer.error_code == ErrorCode.NONE:
            self._remember(answer)
        words = [f"beats v{version} in {request.member_epoch}"]
        words += [f"as {member_id or 'nobody'}"] if member_id is not None else []
        words += [f"instance={said}"] if said is not None else []
        words += [f"owning {shown_partitions(owned)}"] if owned is not None else []
        words += [f"topics={[_title(one) for one in topics]}"] if topics is not None else []
        words += [f"regex={regex!r}"] if regex is not None else []
        words += [f"assignor={assignor}"] if assignor is not None else []
        words += [f"timeout={rebalance_timeout_ms}"] if rebalance_timeout_ms != -1 else []
        return self.say(" ".join(words), answer)

    def _remember(self, answer: Any) -> None:
        if answer.member_id and answer.member_id != self.member_id:
            self.member_id = answer.member_id
            self.stage.transcript.call(answer.member_id, f"id-of-{self.name}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                self.stage.topic_of(one.topic_id): sorted(one.partitions)
                for one in answer.assignment.topic_partitions
            }

    def join(self, *topics: Topic | str, **details: Any) -> Any:
        """The first heartbeat, with everything that it must have."""
        if details.get("regex") is None or topics:
            details.setdefault("topics", topics)
        details.setdefault("rebalance_timeout_ms", REBALANCE_TIMEOUT_MS)
        return self.beat(epoch=JOIN, owned=details.pop("owned", {}), **details)

    def acknowledge(self, **details: Any) -> Any:
        """A heartbeat that says that the member owns what it was last assigned."""
        return self.beat(owned=self.assigned, **details)

    def full(self, *topics: Topic, **details: Any) -> Any:
        """A heartbeat with everything, as after a lost answer."""
        details.setdefault("owned", self.assigned)
        details.setdefault("rebalance_timeout_ms", REBALANCE_TIMEOUT_MS)
        return self.beat(topics=topics, **details)

    def leave(self, **details: Any) -> Any:
        return self.beat(epoch=LEAVE, **details)

    def leave_for_a_while(self, **details: Any) -> Any:
        return self.beat(epoch=LEAVE_FOR_A_WHILE, **details)


def _name(topic: Topic | str) -> str:
    return topic if isinstance(topic, str) else topic.name


def _title(topic: Topic | str) -> str:
    return topic if isinstance(topic, str) else topic.title


class ClassicConsumer(Committer):
    """A member of the classic protocol; requests that the broker parks are sent and received apart."""

    def __init__(self, stage: Stage, name: str, instance: str | None = None) -> None:
        super().__init__(stage, name)
        self.member_id = ""
        self.instance = instance
        self.generation = -1
        self.protocol: str | None = None

    def identity(self) -> tuple[str, int, str | None]:
        return self.member_id, self.generation, self.instance

    def _joined(self) -> Joined:
        return Joined(self.stage.group, self.member_id, self.generation, self.instance)

    def send_join(
        self,
        *topics: Topic | str,
        owned: Partitions | None = None,
        protocols: Sequence[str] = ("range",),
        protocol_type: str = "consumer",
        subscription: bytes | None = None,
        subscription_version: int = 1,
        session_timeout_ms: int = ask.SESSION_TIMEOUT_MS,
        rebalance_timeout_ms: int = ask.REBALANCE_TIMEOUT_MS,
        member_id: str | None = None,
        version: int = JOIN_VERSION,
    ) -> None:
        metadata = subscription
        if metadata is None:
            value = ConsumerProtocolSubscription(
                topics=[_name(topic) for topic in topics],
                owned_partitions=[
                    consumer_protocol.TopicPartition(topic=topic.name, partitions=list(numbers))
                    for topic, numbers in (owned or {}).items()
                ],
            )
            metadata = encode_stored(value, subscription_version)
        request = ask.join_request(
            self.stage.group,
            self.member_id if member_id is None else member_id,
            instance_id=self.instance,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type=protocol_type,
            protocols=[(name, metadata) for name in protocols],
        )
        self.connection.send(request, version)
        self.stage.settle()

    def receive_join(self, version: int = JOIN_VERSION) -> Any:
        answer = self.connection.receive(JoinGroupResponse, version)
        if answer.member_id and answer.member_id != self.member_id:
            self.member_id = answer.member_id
            self.stage.transcript.call(answer.member_id, f"id-of-{self.name}")
        if answer.error_code == ErrorCode.NONE:
            self.generation = answer.generation_id
            self.protocol = answer.protocol_name
        return self.say(f"joins v{version}", answer)

    def join(self, *topics: Topic | str, version: int = JOIN_VERSION, **details: Any) -> Any:
        """One JoinGroup and its answer."""
        self.send_join(*topics, version=version, **details)
        return self.receive_join(version)

    def join_fully(self, *topics: Topic | str, **details: Any) -> Any:
        """As a client joins: with the id that the coordinator gives it."""
        answer = self.join(*topics, **details)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.join(*topics, **details)
        return answer

    def send_sync(
        self,
        assignments: Mapping[ClassicConsumer, Partitions] | None = None,
        *,
        generation: int | None = None,
        protocol: Any = UNSAID,
        protocol_type: str | None = "consumer",
        member_id: str | None = None,
        version: int = SYNC_VERSION,
    ) -> None:
        given = {
            member.member_id: encode_stored(
                ConsumerProtocolAssignment(
                    assigned_partitions=[
                        consumer_protocol.TopicPartition(topic=topic.name, partitions=list(numbers))
                        for topic, numbers in partitions.items()
                    ]
                ),
                0,
            )
            for member, partitions in (assignments or {}).items()
        }
        who = self._joined()
        if generation is not None:
            who = who._replace(generation=generation)
        if member_id is not None:
            who = who._replace(member_id=member_id)
        request = ask.sync_request(
            who,
            given,
            protocol_type=protocol_type,
            protocol=self.protocol if protocol is UNSAID else protocol,
        )
        self.connection.send(request, version)
        self.stage.settle()

    def receive_sync(self, version: int = SYNC_VERSION) -> Any:
        return self.say(f"syncs v{version}", self.connection.receive(SyncGroupResponse, version))

    def sync(
        self,
        assignments: Mapping[ClassicConsumer, Partitions] | None = None,
        *,
        version: int = SYNC_VERSION,
        **details: Any,
    ) -> Any:
        self.send_sync(assignments, version=version, **details)
        return self.receive_sync(version)

    def beat(
        self,
        *,
        generation: int | None = None,
        member_id: str | None = None,
        instance: Any = UNSAID,
        version: int = HEARTBEAT_VERSION,
    ) -> Any:
        request = HeartbeatRequest(
            group_id=self.stage.group,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id if member_id is None else member_id,
            group_instance_id=self.instance if instance is UNSAID else instance,
        )
        answer = self.connection.call(request, HeartbeatResponse, version)
        return self.say(f"beats v{version} in {request.generation_id}", answer)

    def leave(
        self, *members: tuple[str, str | None], version: int = ask.LEAVE_BATCHED_SINCE + 2
    ) -> LeaveGroupResponse:
        """Leaves, or has others leave, given by member id and instance id."""
        given = members or ((self.member_id, self.instance),)
        answer = ask.leave(self.connection, self.stage.group, *given, version=version)
        left: LeaveGroupResponse = self.say(f"leaves v{version}", answer)
        return left


class TransactionalProducer:
    """A producer that commits offsets of a group in its transactions."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.name = name
        self.transactional_id = stage.own_name(f"transaction-of-{name}")
        self.connection = stage.connect()
        transactions.await_coordinator(self.connection, self.transactional_id)
        self.identity = transactions.become(self.connection, self.transactional_id)

    def commit_offsets(
        self,
        offsets: Offsets,
        *,
        member: Committer | None = None,
        epoch: int | None = None,
        member_id: str | None = None,
        instance: Any = UNSAID,
        version: int = transactions.OFFSETS_V2,
        metadata: str | None = "",
    ) -> Any:
        who = ("", -1, None) if member is None else member.identity()
        said = {
            "member_id": who[0] if member_id is None else member_id,
            "generation_id": who[1] if epoch is None else epoch,
            "group_instance_id": who[2] if instance is UNSAID else instance,
        }
        if version <= transactions.OFFSETS_V1:
            error = transactions.add_offsets(
                self.connection, self.transactional_id, self.identity, self.stage.group
            )
            self.stage.say(f"{self.name} adds the group to its transaction", error.name)
        request = transactions.commit_offsets_request(
            self.transactional_id,
            self.identity,
            self.stage.group,
            {
                (topic.name, number): offset
                for topic, numbers in offsets.items()
                for number, offset in numbers.items()
            },
            metadata=metadata,
            **said,
        )
        answer = self.connection.call(request, TxnOffsetCommitResponse, version)
        step = f"commits offsets v{version} as {said['member_id'] or 'nobody'} in {said['generation_id']}"
        return self.stage.say(f"{self.name} {step}", answer)

    def end(self, *, commits: bool = True) -> None:
        answer = transactions.end(
            self.connection, self.transactional_id, self.identity, commits=commits
        )
        verb = "commits" if commits else "aborts"
        self.stage.say(f"{self.name} {verb}", ErrorCode(answer.error_code).name)
        self.identity = transactions.Identity(answer.producer_id, answer.producer_epoch)
        # The marker reaches the group's coordinator after the answer.
        self.stage.settle()
        self.stage.settle()
