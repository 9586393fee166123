"""The same group requests to two brokers, one of which answers none as plain: answers and groups must be the same.

Several clients of each broker join, sync, heartbeat and commit, so that requests wait for those of other clients.

python -m tests.fuzz.plain_groups SEED RECEIVES
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.mutations import mutate
from tests.fuzz.plain import API_VERSIONS, Client, FrozenClock, FuzzError
from tests.lasting import LASTING
from tests.sim.nodes import SeededIds

from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.config.broker import BrokerConfig
from ottla.core.group.classic.group import ClassicGroup
from ottla.core.group.machine import GroupMachine
from ottla.wire.compile import encode_stored
from ottla.wire.declare import info_of
from ottla.wire.framing import SIZE_BYTES, frame_request
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.stored.consumer_protocol import ConsumerProtocolSubscription

CLIENTS = 4
ANSWER_SECONDS = 20.0
# Turns of the loop in which nothing more is answered, after which nothing will be.
QUIET_TURNS = 8
GROUPS = ("one", "two", "größe")
TOPICS = ("read", "read", "read", "other", "unknown")
PARTITIONS = 3
INSTANCES = (None,) * 6 + ("first", "second")
SUBSCRIPTION = encode_stored(ConsumerProtocolSubscription(topics=["read"]), 1)
OPTIONS = {
    **LASTING,
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    "offset.metadata.max.bytes": "20",
    "group.max.size": "6",
}


@dataclass
class Tally:
    """What a run has done."""

    receives: int = 0
    frames: int = 0
    answered_bytes: int = 0
    closed: int = 0
    generations: int = 0
    offsets: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.receives} receives with {self.frames} frames in {self.seconds:.0f} s, "
            f"{self.answered_bytes} bytes of answers, {self.closed} connections closed, "
            f"{self.generations} generations, {self.offsets} offsets"
        )


class Broker:
    """A broker, and its clients."""

    def __init__(self, running: RunningBroker, answers_plain: bool) -> None:
        self.running = running
        self._answers_plain = answers_plain
        self.clients: list[Client] = [self._connect() for _ in range(CLIENTS)]

    def _connect(self) -> Client:
        return Client(self.running, self._answers_plain)

    def machines(self) -> list[GroupMachine]:
        return self.running.node.groups.machines()

    def group(self, group_id: str) -> ClassicGroup | None:
        found = [machine.membership.groups.get(group_id) for machine in self.machines()]
        return next((group for group in found if group is not None), None)

    def send(self, number: int, data: bytes) -> None:
        client = self.clients[number]
        room = client.connection.get_buffer(-1)
        assert len(room) >= len(data)
        room[: len(data)] = data
        client.connection.buffer_updated(len(data))

    def state(self) -> Any:
        """All that clients can find out, and what a restart would find."""
        return (
            [(bytes(client.written), client.closed) for client in self.clients],
            [machine.durable_state() for machine in self.machines()],
            [
                [
                    (
                        *(group.group_id, group.state, group.generation, group.leader),
                        *(group.protocol_type, group.protocol, list(group.pending_joins)),
                        *(list(group.pending_syncs), group.joined_count),
                        [
                            (member.member_id, dict(member.protocols), member.assignment)
                            for member in group.members.values()
                        ],
                    )
                    for group in machine.membership.groups.values()
                ]
                for machine in self.machines()
            ],
        )

    def connect_again(self) -> int:
        """Replaces the clients whose connections were closed; how many."""
        closed = [number for number, client in enumerate(self.clients) if client.closed]
        for number in closed:
            self.clients[number].end()
            self.clients[number] = self._connect()
        for client in self.clients:
            client.written.clear()
        return len(closed)

    def hang_up(self, number: int) -> None:
        """The client goes, whatever it waits for."""
        self.clients[number].end()
        self.clients[number] = self._connect()


class Frames:
    """Random requests about the groups of a broker, most of them by members as they are."""

    def __init__(self, rng: random.Random, broker: Broker) -> None:
        self._rng = rng
        self._broker = broker
        self._number = 0
        self._recent: list[bytes] = [API_VERSIONS]
        self._topic_ids = {
            name: topic.topic_id for name, topic in broker.running.cluster.catalog.topics.items()
        }

    def receive(self) -> list[bytes]:
        frames = [self._frame() for _ in range(self._rng.choice((1, 1, 1, 2, 5)))]
        self._recent = [*self._recent, *frames][-20:]
        return frames

    def _frame(self) -> bytes:
        rng = self._rng
        if rng.random() < 0.03:
            return rng.choice((API_VERSIONS, *self._recent))
        group_id = rng.choice(GROUPS) if rng.random() < 0.98 else rng.choice(("", "none"))
        group = self._broker.group(group_id)
        make = rng.choice(
            (self._join,) * 6
            + (self._sync,) * 6
            + (self._heartbeat,) * 3
            + (self._commit,) * 5
            + (self._leave,)
        )
        message = type(request := make(group_id, group))
        versions = info_of(message).versions
        version = rng.randint(versions.first, versions.last)
        if rng.random() < 0.4:
            version = versions.last
        self._adapt(request, version)
        self._number += 1
        frame = bytearray(
            frame_request(request, version, self._number, rng.choice((None, "fuzz", "fuzz")))
        )
        if rng.random() < 0.02:
            mutate(rng, frame, self._recent)
            frame[:SIZE_BYTES] = max(0, len(frame) - SIZE_BYTES).to_bytes(4, "big")
        return bytes(frame)

    def _adapt(self, request: Any, version: int) -> None:
        """Takes out what a version does not have."""
        rng = self._rng
        if isinstance(request, OffsetCommitRequest):
            for topic in request.topics:
                topic.topic_id = self._topic_ids.get(topic.name, topic.topic_id)
        if isinstance(request, SyncGroupRequest) and version >= 5 and rng.random() < 0.9:
            request.protocol_type, request.protocol_name = "consumer", "range"

    def _member(self, group: ClassicGroup | None) -> str:
        """Mostly the id of a member, or one that a client has just got."""
        if group is None or self._rng.random() < 0.06:
            return self._rng.choice(("", "nobody"))
        known = [*group.members, *group.pending_joins]
        return self._rng.choice(known) if known else ""

    def _generation(self, group: ClassicGroup | None) -> int:
        if group is None or self._rng.random() < 0.06:
            return self._rng.choice((-1, 0, 1, 7))
        return group.generation

    def _instance(self, group: ClassicGroup | None, member_id: str) -> str | None:
        """Mostly the member's own."""
        if group is not None and self._rng.random() < 0.9:
            member = group.members.get(member_id)
            return None if member is None else member.instance_id
        return self._rng.choice(INSTANCES)

    def _join(self, group_id: str, group: ClassicGroup | None) -> JoinGroupRequest:
        rng = self._rng
        is_new = rng.random() < 0.3
        member_id = "" if is_new else self._member(group)
        instance = rng.choice(INSTANCES) if is_new else self._instance(group, member_id)
        names = rng.choice((("range",),) * 6 + (("range", "other"), ("other", "range"), ()))
        return JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=rng.choice((30_000,) * 9 + (1,)),
            rebalance_timeout_ms=rng.choice((60_000, 60_000, -1)),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=rng.choice(("consumer",) * 20 + ("connect", "")),
            protocols=[
                JoinGroupRequestProtocol(
                    name=name, metadata=rng.choice((SUBSCRIPTION, SUBSCRIPTION, b"", b"other"))
                )
                for name in names
            ],
            reason=rng.choice((None, "because")),
        )

    def _sync(self, group_id: str, group: ClassicGroup | None) -> SyncGroupRequest:
        rng = self._rng
        member_id = self._member(group)
        if group is not None and group.leader is not None and rng.random() < 0.4:
            member_id = group.leader
        members = [] if group is None or group.leader != member_id else list(group.members)
        return SyncGroupRequest(
            group_id=group_id,
            generation_id=self._generation(group),
            member_id=member_id,
            group_instance_id=self._instance(group, member_id),
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=rng.randbytes(5))
                for each in members
            ],
        )

    def _heartbeat(self, group_id: str, group: ClassicGroup | None) -> HeartbeatRequest:
        member_id = self._member(group)
        return HeartbeatRequest(
            group_id=group_id,
            generation_id=self._generation(group),
            member_id=member_id,
            group_instance_id=self._instance(group, member_id),
        )

    def _commit(self, group_id: str, group: ClassicGroup | None) -> OffsetCommitRequest:
        rng = self._rng
        member_id = self._member(group)
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=self._generation(group),
            member_id=member_id,
            group_instance_id=self._instance(group, member_id),
            retention_time_ms=rng.choice((-1, -1, 1000)),
            topics=[
                OffsetCommitRequestTopic(
                    name=rng.choice(TOPICS),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=rng.choice((*range(PARTITIONS), 0, 0, PARTITIONS, -1)),
                            committed_offset=rng.randrange(1000),
                            committed_leader_epoch=rng.choice((-1, 3)),
                            committed_metadata=rng.choice((None, "", "text", "x" * 21)),
                        )
                        for _ in range(rng.choice((1, 1, 2, 3, 0)))
                    ],
                )
                for _ in range(rng.choice((1, 1, 1, 2, 0)))
            ],
        )

    def _leave(self, group_id: str, group: ClassicGroup | None) -> LeaveGroupRequest:
        member_id = self._member(group)
        return LeaveGroupRequest(
            group_id=group_id,
            member_id=member_id,
            members=[MemberIdentity(member_id=member_id)],
        )


async def _start(folder: Path, answers_plain: bool, seed: int) -> Broker:
    settings = BrokerSettings(BrokerConfig.read(OPTIONS), str(folder))
    running = await start_broker(settings, Instruments(clock=FrozenClock()))
    # Both brokers give topics and members the same ids.
    running.cluster.ids = SeededIds(random.Random(seed))
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=PARTITIONS,
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        for name in ("read", "other")
    ]
    broker = Broker(running, answers_plain)
    client = broker.clients[0]
    await client.receive(
        frame_request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5, 1, None)
    )
    for group_id in GROUPS:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id])
        await client.receive(frame_request(request, 4, 1, None))
    return broker


async def _compare(brokers: list[Broker]) -> None:
    """Returns when both have answered all that they can, and have answered the same."""
    deadline = time.monotonic() + ANSWER_SECONDS
    before, quiet = None, 0
    while quiet < QUIET_TURNS:
        await asyncio.sleep(0 if quiet < QUIET_TURNS - 1 else 0.002)
        states = [broker.state() for broker in brokers]
        quiet = quiet + 1 if states == before and states[0] == states[1] else 0
        before = states
        if time.monotonic() > deadline:
            raise FuzzError(f"plain  {states[0]}\nsingle {states[1]}")


async def _run(folder: Path, seed: int, receives: int) -> Tally:
    rng = random.Random(seed)
    tally = Tally()
    began = time.monotonic()
    brokers: list[Broker] = []
    try:
        for number in range(2):
            (folder / str(number)).mkdir(parents=True)
            brokers.append(await _start(folder / str(number), number == 0, seed))
        for broker in brokers:
            broker.connect_again()  # their answers so far tell their ports
        await _compare(brokers)
        frames = Frames(rng, brokers[0])
        while tally.receives < receives:
            # Some requests of several clients are of one turn.
            for _ in range(rng.choice((1, 1, 2, 4))):
                number = rng.randrange(CLIENTS)
                if rng.random() < 0.02 or not brokers[0].clients[number].connection._may_handle:
                    for broker in brokers:
                        broker.hang_up(number)
                    continue
                sent = frames.receive()
                for broker in brokers:
                    broker.send(number, b"".join(sent))
                tally.receives += 1
                tally.frames += len(sent)
            await _compare(brokers)
            tally.answered_bytes += sum(len(each.written) for each in brokers[0].clients)
            closed = [broker.connect_again() for broker in brokers]
            tally.closed += closed[0]
        machines = brokers[0].machines()
        tally.generations = sum(
            group.generation for each in machines for group in each.membership.groups.values()
        )
        tally.offsets = sum(len(each.committed(name)) for each in machines for name in GROUPS)
    except FuzzError as error:
        raise FuzzError(f"seed {seed}, receive {tally.receives}: {error}") from error
    finally:
        for broker in brokers:
            for client in broker.clients:
                client.end()
            await broker.running.stop()
    tally.seconds = time.monotonic() - began
    return tally


def run_plain_groups(folder: Path, seed: int, receives: int) -> Tally:
    return asyncio.run(_run(folder, seed, receives))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(run_plain_groups(Path(temporary), int(sys.argv[1]), int(sys.argv[2])))
