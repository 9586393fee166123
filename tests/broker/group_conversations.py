"""Conversations with groups, at every version: what is said is written down, to compare brokers with."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from tests.broker import group_requests as ask
from tests.broker.group_requests import Joined, Position

from ottla.client.raw import RawConnection
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID = re.compile(r"(?:instance|ottla-raw)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Kafka does not answer a consumer whose subscription it cannot read.
NO_TOPICS = bytes.fromhex("0000 00000000 00000001")
TWO_PROTOCOLS = {"range": NO_TOPICS + b"1", "roundrobin": NO_TOPICS + b"2"}
OTHER_PROTOCOL = {"roundrobin": NO_TOPICS + b"3"}


class Conversation:
    """Some groups of a broker, and what it said; names that differ from run to run are replaced."""

    def __init__(self, address: str, topic: str, topic_id: uuid.UUID, stack: ExitStack) -> None:
        self._address = address
        self._stack = stack
        self.group = f"g-{uuid.uuid4().hex[:12]}"
        self.topic = topic
        self.topic_id = topic_id
        self.said: list[str] = []
        self._replaced = {
            self.group: "GROUP",
            topic: "TOPIC",
            str(topic_id): "TOPIC-ID",
        }
        self._members: dict[str, str] = {}

    def connect(self) -> RawConnection:
        return self._stack.enter_context(RawConnection(self._address))

    def write_down(self, answer: Any) -> Any:
        text = repr(answer)
        for member_id in MEMBER_ID.findall(text):
            self._members.setdefault(member_id, f"MEMBER-{len(self._members)}")
        for name, other in (*self._members.items(), *self._replaced.items()):
            text = text.replace(name, other)
        # Where there is nothing to say, Kafka says "NONE" or "" in some versions.
        text = re.sub(r"error_message=(None|'NONE'|'')", "error_message=None", text)
        self.said.append(re.sub(r"port=\d{4,5}", "port=PORT", text))
        return answer

    def member(self, answer: Any, instance_id: str | None = None) -> Joined:
        return Joined(self.group, answer.member_id, answer.generation_id, instance_id)


Script = Callable[[Conversation, int], None]


def join_alone(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    answer = talk.write_down(ask.join(connection, talk.group, version=version))
    if version >= ask.JOIN_HANDSHAKE_SINCE:
        answer = ask.join(connection, talk.group, answer.member_id, version=version)
        talk.write_down(answer)
    # The leader asks again: a new generation.
    again = ask.join(connection, talk.group, answer.member_id, version=version)
    talk.write_down(again)
    talk.write_down(ask.join(connection, talk.group, "stranger", version=version))
    talk.write_down(ask.join(connection, talk.group, session_timeout_ms=1, version=version))
    talk.write_down(ask.join(connection, talk.group, protocol_type="other", version=version))
    talk.write_down(ask.join(connection, "", version=version))
    talk.write_down(ask.join(connection, "no-such-group", "stranger", version=version))


def join_together(talk: Conversation, version: int) -> None:
    """A second member comes, is told who leads, and asks again without any change."""
    first, second = talk.connect(), talk.connect()
    leader = ask.enter(first, talk.group, protocols=TWO_PROTOCOLS)
    details: dict[str, Any] = {"protocols": OTHER_PROTOCOL, "version": version}
    new_id = ask.new_member_id(second, talk.group, **details)
    del details["version"]
    second.send(ask.join_request(talk.group, new_id, **details), version)
    ask.await_state(first, talk.group, "PreparingRebalance")
    led = ask.join(first, talk.group, leader.member_id, protocols=TWO_PROTOCOLS, version=version)
    led.members.sort(key=lambda member: member.metadata)
    talk.write_down(led)
    followed = talk.write_down(second.receive(JoinGroupResponse, version))
    talk.write_down(ask.join(second, talk.group, followed.member_id, version=version, **details))
    second.send(ask.sync_request(talk.member(followed), protocol="roundrobin"), min(version, 5))
    assigned = {led.member_id: b"leader", followed.member_id: b"follower", "stranger": b"?"}
    talk.write_down(
        ask.sync(first, talk.member(led), assigned, protocol="roundrobin", version=min(version, 5))
    )
    talk.write_down(second.receive(SyncGroupResponse, min(version, 5)))
    talk.write_down(ask.join(second, talk.group, followed.member_id, version=version, **details))


def join_as_static(talk: Conversation, version: int) -> None:
    """A static leader restarts, and an instance id follows it."""
    connection = talk.connect()
    instance: dict[str, Any] = {"instance_id": "instance", "version": version}
    answer = talk.write_down(ask.join(connection, talk.group, **instance))
    member = talk.member(answer, "instance")
    talk.write_down(ask.sync(connection, member, {member.member_id: b"kept"}))
    again = talk.write_down(ask.join(connection, talk.group, **instance))
    talk.write_down(ask.sync(connection, talk.member(again, "instance")))
    talk.write_down(ask.join(connection, talk.group, member.member_id, **instance))
    talk.write_down(ask.describe(connection, talk.group))


def sync(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    talk.write_down(ask.sync(connection, Joined("", "stranger", 1), version=version))
    talk.write_down(ask.sync(connection, Joined(talk.group, "stranger", 1), version=version))
    answer = ask.join_fully(connection, talk.group)
    member = talk.member(answer)
    wrong = member._replace(generation=5)
    talk.write_down(ask.sync(connection, wrong, version=version))
    talk.write_down(ask.sync(connection, member, protocol="other", version=version))
    twice = [(member.member_id, b"first"), (member.member_id, b"last"), ("stranger", b"")]
    talk.write_down(ask.sync(connection, member, twice, version=version))
    # In a stable group an assignment comes too late.
    late = {member.member_id: b"late"}
    talk.write_down(ask.sync(connection, member, late, version=version))


def heartbeat(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    member = ask.enter(connection, talk.group)
    for who in (member, member._replace(generation=9), member._replace(group="")):
        request = HeartbeatRequest(
            group_id=who.group, generation_id=who.generation, member_id=who.member_id
        )
        talk.write_down(connection.call(request, HeartbeatResponse, version))


def leave(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    talk.write_down(ask.leave(connection, "", ("stranger", None), version=version))
    talk.write_down(ask.leave(connection, talk.group, ("stranger", None), version=version))
    member = ask.enter(connection, talk.group)
    talk.write_down(ask.leave(connection, talk.group, ("stranger", None), version=version))
    if version >= ask.LEAVE_BATCHED_SINCE:
        talk.write_down(ask.leave(connection, talk.group, version=version))
        several = [("stranger", None), (member.member_id, None), ("", "instance")]
        talk.write_down(ask.leave(connection, talk.group, *several, version=version))
    else:
        talk.write_down(
            ask.leave(connection, talk.group, (member.member_id, None), version=version)
        )
    talk.write_down(ask.describe(connection, talk.group))


def commit(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    positions: dict[tuple[str, int], int | Position] = {
        (talk.topic, 0): Position(7, "seven", 3),
        (talk.topic, 5): 1,
        (talk.topic, 1): Position(8, "m" * 5000),
        ("no-such-topic", 0): 1,
    }
    ids = None
    if version >= ask.TOPIC_IDS_SINCE:
        del positions["no-such-topic", 0]
        ids = {talk.topic: talk.topic_id}
    for sent in (positions, {}):
        request = ask.commit_request(talk.group, sent, topic_ids=ids)
        answer = connection.call(request, OffsetCommitResponse, version)
        for topic in answer.topics:
            topic.partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
        answer.topics.sort(key=lambda topic: topic.name)
        talk.write_down(answer)
    talk.write_down(ask.committed(connection, talk.group))


def commit_behind_sync(talk: Conversation, version: int) -> None:
    """On one connection, while the SyncGroup waits: for the leader's, or in vain because the leader goes."""
    first, second = talk.connect(), talk.connect()
    leader = ask.enter(first, talk.group)
    new_id = ask.new_member_id(second, talk.group)
    ids = {talk.topic: talk.topic_id} if version >= ask.TOPIC_IDS_SINCE else None
    for metadata in (b"1", b"2"):
        changed = ask.join_request(talk.group, new_id, protocols={"range": NO_TOPICS + metadata})
        second.send(changed, 9)
        ask.await_state(first, talk.group, "PreparingRebalance")
        generation = ask.join(first, talk.group, leader.member_id).generation_id
        second.receive(JoinGroupResponse, 9)
        follower = Joined(talk.group, new_id, generation)
        positions = {(talk.topic, 0): generation}
        request = ask.commit_request(talk.group, positions, member=follower, topic_ids=ids)
        second.send(ask.sync_request(follower), 5)
        second.send(request, version)
        if metadata == b"1":
            ask.sync(first, leader._replace(generation=generation), {new_id: b"follower"})
        else:
            ask.leave(first, talk.group, (leader.member_id, None))
        talk.write_down(second.receive(SyncGroupResponse, 5))
        talk.write_down(second.receive(OffsetCommitResponse, version))
        talk.write_down(ask.committed(first, talk.group))


def fetch_offsets(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    ask.commit(connection, talk.group, {(talk.topic, 1): Position(9, "nine", 4)})
    wanted = {talk.topic: [0, 1, 7], "no-such-topic": [0]}
    for group in (talk.group, "no-such-group", ""):
        if version < ask.TOPIC_IDS_SINCE:
            talk.write_down(ask.fetch_offsets(connection, group, wanted, version=version))
            talk.write_down(ask.fetch_offsets(connection, group, {}, version=version))
        if version >= 2:
            talk.write_down(ask.fetch_offsets(connection, group, None, version=version))
    if version >= 7:
        stable = ask.fetch_offsets(
            connection, talk.group, None, version=version, require_stable=True
        )
        talk.write_down(stable)
    if ask.FETCH_BATCHED_SINCE <= version < ask.TOPIC_IDS_SINCE:
        request = ask.fetch_groups_request({talk.group: wanted, "no-such-group": None})
        talk.write_down(connection.call(request, OffsetFetchResponse, version))


def delete_offsets(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    talk.write_down(ask.delete_offsets(connection, talk.group, {talk.topic: [0]}))
    talk.write_down(ask.delete_offsets(connection, "", {talk.topic: [0]}))
    ask.commit(connection, talk.group, {(talk.topic, 0): 1, (talk.topic, 1): 2})
    talk.write_down(ask.delete_offsets(connection, talk.group, {}))
    answer = ask.delete_offsets(connection, talk.group, {talk.topic: [1, 9]})
    for topic in answer.topics:
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    talk.write_down(answer)
    talk.write_down(ask.committed(connection, talk.group))


def describe(talk: Conversation, version: int) -> None:
    """A group in each of its states."""
    first, second = talk.connect(), talk.connect()

    def look(*groups: str) -> None:
        request = DescribeGroupsRequest(groups=list(groups or [talk.group]))
        answer = first.call(request, DescribeGroupsResponse, version)
        for group in answer.groups:
            # Kafka's order is a hash table's.
            group.members.sort(key=lambda member: member.member_assignment)
        talk.write_down(answer)

    look()
    look("", "no-such-group", "no-such-group")
    ask.commit(first, talk.group, {(talk.topic, 0): 1})
    look()
    joined = ask.join_fully(first, talk.group)
    look()
    member = talk.member(joined)
    ask.sync(first, member, {member.member_id: b"mine"})
    look()
    second.send(ask.join_request(talk.group, instance_id="instance"), 9)
    ask.await_state(first, talk.group, "PreparingRebalance")
    look()
    ask.leave(first, talk.group, (member.member_id, None))
    answer = second.receive(JoinGroupResponse, 9)
    ask.leave(first, talk.group, (answer.member_id, "instance"))
    look()


def list_groups(talk: Conversation, version: int) -> None:
    connection = talk.connect()

    def look(states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = connection.call(request, ListGroupsResponse, version)
        answer.groups = [group for group in answer.groups if group.group_id == talk.group]
        talk.write_down(answer)

    def look_in_every_way() -> None:
        look()
        if version >= 4:
            look(["stable"])
            look(["EMPTY", "Dead"])
            look(["no such state"])
            look(["CompletingRebalance", "PreparingRebalance"])
        if version >= 5:
            look([], ["CLASSIC"])
            look([], ["consumer"])
            look(["Stable"], ["Classic", "share"])

    look_in_every_way()
    ask.commit(connection, talk.group, {(talk.topic, 0): 1})
    look_in_every_way()
    member = talk.member(ask.join_fully(connection, talk.group))
    look_in_every_way()
    ask.sync(connection, member)
    look_in_every_way()
    ask.leave(connection, talk.group, (member.member_id, None))
    look_in_every_way()


def delete_groups(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    member = ask.enter(connection, talk.group)
    wanted = [talk.group, talk.group]
    request = DeleteGroupsRequest(groups_names=wanted)
    talk.write_down(connection.call(request, DeleteGroupsResponse, version))
    ask.commit(connection, talk.group, {(talk.topic, 0): 1}, member=member)
    ask.leave(connection, talk.group, (member.member_id, None))
    talk.write_down(connection.call(request, DeleteGroupsResponse, version))
    talk.write_down(ask.committed(connection, talk.group))
    talk.write_down(ask.describe(connection, talk.group))
    talk.write_down(connection.call(request, DeleteGroupsResponse, version))
    none = DeleteGroupsRequest(groups_names=[])
    talk.write_down(connection.call(none, DeleteGroupsResponse, version))


def find_coordinator(talk: Conversation, version: int) -> None:
    connection = talk.connect()
    talk.write_down(ask.find_coordinator(connection, talk.group, version=version))
    if version >= ask.FIND_BATCHED_SINCE:
        talk.write_down(ask.find_coordinator(connection, "a", "", "a", version=version))
        talk.write_down(ask.find_coordinator(connection, version=version))


class Told(NamedTuple):
    """A conversation, and the request whose versions it has."""

    request: type[Any]
    script: Script
    first_version: int = 0


CONVERSATIONS = {
    told.script.__name__: told
    for told in (
        Told(JoinGroupRequest, join_alone),
        Told(JoinGroupRequest, join_together),
        Told(JoinGroupRequest, join_as_static, ask.JOIN_INSTANCE_SINCE),
        Told(SyncGroupRequest, sync),
        Told(HeartbeatRequest, heartbeat),
        Told(LeaveGroupRequest, leave),
        Told(OffsetCommitRequest, commit),
        Told(OffsetCommitRequest, commit_behind_sync),
        Told(OffsetFetchRequest, fetch_offsets),
        Told(OffsetDeleteRequest, delete_offsets),
        Told(DescribeGroupsRequest, describe),
        Told(ListGroupsRequest, list_groups),
        Told(DeleteGroupsRequest, delete_groups),
        Told(FindCoordinatorRequest, find_coordinator),
    )
}


def transcript(
    told: Told, address: str, topic: str, topic_id: uuid.UUID, version: int
) -> list[str]:
    """What a broker says in a conversation."""
    with ExitStack() as stack:
        talk = Conversation(address, topic, topic_id, stack)
        told.script(talk, version)
        return talk.said
