"""Every version of the group's requests that we speak works, as with brokers from Kafka 2.1 on."""

from __future__ import annotations

import pytest
from tests.client.groups.driving import Driver, create_topic, new_group, run, until

from ottla import Broker
from ottla.client.aio.network.connection import Connection
from ottla.client.model import OffsetAndMetadata
from ottla.errors import KafkaError
from ottla.wire.declare import info_of
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.sync_group import SyncGroupRequest

# The oldest versions that Kafka 2.1's client sends to a broker of its own age or older.
OLDEST: dict[type, int] = {
    FindCoordinatorRequest: 0,
    HeartbeatRequest: 0,
    JoinGroupRequest: 1,
    LeaveGroupRequest: 0,
    OffsetCommitRequest: 2,
    OffsetFetchRequest: 1,
    SyncGroupRequest: 0,
}


def versions() -> list[tuple[type, int]]:
    return [
        (request, version)
        for request, oldest in OLDEST.items()
        for version in range(oldest, info_of(request).versions.last + 1)
    ]


def cap(
    monkeypatch: pytest.MonkeyPatch, caps: dict[type, int], seen: set[tuple[type, int]]
) -> None:
    """As if the broker knew nothing newer."""
    newest = Connection.version_of

    def version_of(self: Connection, request: type, at_most: int | None = None) -> int:
        limits = [limit for limit in (at_most, caps.get(request)) if limit is not None]
        version = newest(self, request, min(limits) if limits else None)
        seen.add((request, version))
        return version

    monkeypatch.setattr(Connection, "version_of", version_of)


async def live(servers: str, topic: str) -> None:
    """What members do: join, commit, find out what was committed, leave."""
    group = new_group()
    async with Driver(servers, group, heartbeat_interval_ms=20) as stays:
        await create_topic(stays.network, topic, 2)
        stays.subscribe(topic)
        stays.start_polling()
        async with Driver(servers, group, heartbeat_interval_ms=20) as goes:
            goes.subscribe(topic)
            await goes.poll_until(lambda: goes.has(1) and stays.has(1))
            offsets = {goes.assigned[0]: OffsetAndMetadata(3, "note")}
            await goes.member.commit(offsets)
            assert await goes.member.committed(goes.assigned) == offsets
        await until(lambda: stays.has(2))


@pytest.mark.parametrize(
    ("request_class", "version"), versions(), ids=lambda each: getattr(each, "__name__", str(each))
)
def test_members_live_with_every_version(
    ottla_broker: Broker,
    ottla_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    request_class: type,
    version: int,
) -> None:
    seen: set[tuple[type, int]] = set()
    cap(monkeypatch, {request_class: version}, seen)
    run(lambda: live(ottla_broker.bootstrap_servers, ottla_topic))
    assert (request_class, version) in seen


def test_members_live_with_the_oldest_versions_of_everything(
    ottla_broker: Broker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[type, int]] = set()
    cap(monkeypatch, OLDEST, seen)
    run(lambda: live(ottla_broker.bootstrap_servers, ottla_topic))
    assert seen >= set(OLDEST.items())


def test_a_broker_without_static_members_is_told_from_one_with(
    ottla_broker: Broker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cap(monkeypatch, {JoinGroupRequest: 4}, set())

    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), group_instance_id="one") as member:
            member.subscribe(ottla_topic)
            with pytest.raises(KafkaError, match=r"group\.instance\.id") as raised:
                await member.join()
            assert raised.value.name == "UNSUPPORTED_VERSION"

    run(test)
