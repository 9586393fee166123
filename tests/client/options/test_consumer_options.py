"""What the options of a consumer do, seen at a broker through a proxy."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.client.producer.meddler import Meddler, Request
from tests.waiting import in_time

import ottla
from ottla.config.option_types import IsolationLevelWord
from ottla.model import TopicPartition
from ottla.wire.messages.heartbeat import HeartbeatResponse

WAIT_SECONDS = 15.0


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


def fill(servers: str, topic: str, count: int, size_bytes: int = 10) -> None:
    with ottla.Producer(bootstrap_servers=servers, batch_size=0) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number + b"x" * size_bytes, partition=0)


def member(servers: str, group: str, topic: str, **options: Any) -> ottla.Consumer:
    """A consumer of a group that has joined it."""
    given: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **options}
    consumer = ottla.Consumer(bootstrap_servers=servers, group_id=group, **given)
    consumer.subscribe([topic])
    poll_until(consumer, lambda: bool(consumer.assignment()))
    return consumer


def poll_until(consumer: ottla.Consumer, condition: Callable[[], bool]) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        in_time(deadline, "it did not happen")
        found += consumer.poll(0.02)
    return found


def poll_for(consumer: ottla.Consumer, seconds: float) -> list[Any]:
    end = time.monotonic() + seconds
    return poll_until(consumer, lambda: time.monotonic() >= end)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        in_time(deadline, "it did not happen")
        time.sleep(0.005)


def joins(meddler: Meddler) -> Any:
    return meddler.seen("JoinGroup")[-1].message


def test_heartbeats_come_every_heartbeat_interval_ms(
    meddler: Meddler, servers: str, group: str, topic: str
) -> None:
    with member(servers, group, topic, heartbeat_interval_ms=30):
        meddler.calm()
        eventually(lambda: len(meddler.seen("Heartbeat")) >= 5)
    with member(servers, group, topic, heartbeat_interval_ms=5000):
        meddler.calm()
        time.sleep(0.3)
        assert len(meddler.seen("Heartbeat")) <= 1


@pytest.mark.parametrize(("session_ms", "is_removed"), [(300, True), (30_000, False)])
def test_a_member_without_heartbeats_is_removed_after_session_timeout_ms(
    meddler: Meddler, servers: str, group: str, topic: str, session_ms: int, is_removed: bool
) -> None:
    def swallow(request: Request) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=0)

    meddler.on("Heartbeat", answer=swallow, times=10_000)
    with (
        member(servers, group, topic, session_timeout_ms=session_ms, heartbeat_interval_ms=100),
        ottla.Admin(bootstrap_servers=servers) as admin,
    ):

        def members() -> Sequence[Any]:
            return admin.describe_consumer_groups([group])[group].members

        if is_removed:
            eventually(lambda: not members())
        else:
            time.sleep(0.6)
            assert members()


def test_a_consumer_that_does_not_poll_leaves_after_max_poll_interval_ms(
    meddler: Meddler, servers: str, group: str, topic: str
) -> None:
    with member(servers, group, topic, max_poll_interval_ms=60_000):
        assert joins(meddler).rebalance_timeout_ms == 60_000
        meddler.calm()
        time.sleep(0.4)
        assert not meddler.seen("LeaveGroup")
    # Not later: it may have left by the time that it is here.
    meddler.calm()
    with member(servers, group, topic, max_poll_interval_ms=200):
        assert joins(meddler).rebalance_timeout_ms == 200
        eventually(lambda: bool(meddler.seen("LeaveGroup")))


def test_offsets_are_committed_every_auto_commit_interval_ms(
    meddler: Meddler, servers: str, group: str, topic: str
) -> None:
    fill(servers, topic, 60)
    options = {"max_poll_records": 1}
    with member(servers, group, topic, auto_commit_interval_ms=30, **options) as consumer:
        meddler.calm()
        poll_until(consumer, lambda: len(meddler.seen("OffsetCommit")) >= 3)
    with member(servers, group, topic, auto_commit_interval_ms=60_000, **options) as consumer:
        meddler.calm()
        poll_for(consumer, 0.3)
        assert not meddler.seen("OffsetCommit")


@pytest.mark.parametrize("automatic", [True, False])
def test_close_commits_if_enable_auto_commit_says_so(
    servers: str, group: str, topic: str, automatic: bool
) -> None:
    fill(servers, topic, 3)
    with member(servers, group, topic, enable_auto_commit=automatic) as consumer:
        poll_until(consumer, lambda: consumer.position((topic, 0)) == 3)
    with ottla.Consumer(bootstrap_servers=servers, group_id=group) as consumer:
        committed = consumer.committed([(topic, 0)])[TopicPartition(topic, 0)]
    assert (committed is not None and committed.offset == 3) is automatic


def test_offsets_and_partitions_belong_to_group_id(servers: str, group: str, topic: str) -> None:
    fill(servers, topic, 3)
    for name, count in ((f"{group}-a", 3), (f"{group}-b", 3), (f"{group}-a", 0)):
        with ottla.Consumer(
            bootstrap_servers=servers, group_id=name, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([topic])
            found = poll_until(
                consumer,
                lambda c=consumer: bool(c.assignment()) and c.position((topic, 0)) == 3,  # type: ignore[misc]
            )
            assert len(found) == count
            assert consumer.group_metadata().group_id == name


def test_a_static_member_says_its_group_instance_id_and_stays_when_it_closes(
    meddler: Meddler, servers: str, group: str, topic: str
) -> None:
    with ottla.Admin(bootstrap_servers=servers) as admin:
        for name in (None, "desk-1"):
            member(servers, group, topic, group_instance_id=name).close()
            left = admin.describe_consumer_groups([group])[group].members
            assert [each.group_instance_id for each in left] == ([] if name is None else [name])


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        (None, ["range", "cooperative-sticky"]),
        ("roundrobin", ["roundrobin"]),
        (["sticky", "range"], ["sticky", "range"]),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", ["cooperative-sticky"]),
    ],
)
def test_members_offer_the_assignors_of_partition_assignment_strategy(
    meddler: Meddler,
    servers: str,
    group: str,
    topic: str,
    strategy: str | Sequence[str] | None,
    names: list[str],
) -> None:
    with (
        member(servers, group, topic, partition_assignment_strategy=strategy),
        ottla.Admin(bootstrap_servers=servers) as admin,
    ):
        assert [each.name for each in joins(meddler).protocols] == names
        described = admin.describe_consumer_groups([group])[group]
        assert described.partition_assignor == names[0]


def test_a_poll_returns_at_most_max_poll_records(servers: str, topic: str) -> None:
    fill(servers, topic, 20)
    for most in (7, 500):
        with ottla.Consumer(
            bootstrap_servers=servers, max_poll_records=most, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([(topic, 0)])
            sizes: list[int] = []
            while sum(sizes) < 20:
                sizes.append(len(consumer.poll(10.0)))
            assert max(sizes) <= most
            assert (len(sizes) >= 3) is (most == 7)


@pytest.mark.parametrize("option", ["fetch.max.bytes", "max.partition.fetch.bytes"])
def test_a_fetch_brings_at_most_so_many_bytes(
    meddler: Meddler, servers: str, topic: str, option: str
) -> None:
    fill(servers, topic, 20, size_bytes=1000)
    counts = []
    for limit_bytes in (2500, 50_000_000):
        meddler.calm()
        with ottla.Consumer(
            {
                "bootstrap.servers": servers,
                "auto.offset.reset": "earliest",
                "fetch.max.wait.ms": 2000,
                option: limit_bytes,
            }
        ) as consumer:
            consumer.assign([(topic, 0)])
            poll_until(consumer, lambda: consumer.position((topic, 0)) == 20)
            counts.append(len(meddler.seen("Fetch")))
    assert counts[0] >= 10
    assert counts[1] <= 3


def seconds_for_one_record(servers: str, topic: str, **options: Any) -> float:
    with ottla.Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", **options
    ) as consumer:
        consumer.assign([(topic, 0)])
        assert consumer.position((topic, 0)) == 0
        started = time.monotonic()
        assert len(consumer.poll(10.0)) == 1
        return time.monotonic() - started


def test_a_broker_gathers_fetch_min_bytes_for_fetch_max_wait_ms(servers: str, topic: str) -> None:
    fill(servers, topic, 1)
    at_once = seconds_for_one_record(servers, topic, fetch_min_bytes=1, fetch_max_wait_ms=5000)
    after_a_while = seconds_for_one_record(
        servers, topic, fetch_min_bytes=100_000, fetch_max_wait_ms=400
    )
    assert at_once < 4
    assert 0.35 < after_a_while < 4


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_aborted_records_are_seen_as_isolation_level_says(
    servers: str, topic: str, level: IsolationLevelWord
) -> None:
    with ottla.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"no", partition=0).result(10)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"yes", partition=0)
    with ottla.Consumer(
        bootstrap_servers=servers, isolation_level=level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        found = poll_until(consumer, lambda: consumer.position((topic, 0)) == 4)
    assert [r.value for r in found] == ([b"yes"] if level == "read_committed" else [b"no", b"yes"])


@pytest.mark.parametrize("excluded", [True, False])
def test_a_pattern_takes_internal_topics_unless_exclude_internal_topics(
    servers: str, group: str, topic: str, excluded: bool
) -> None:
    fill(servers, topic, 1)
    with ottla.Consumer(
        bootstrap_servers=servers,
        group_id=group,
        exclude_internal_topics=excluded,
        auto_offset_reset="latest",
    ) as consumer:
        consumer.subscribe(f"^({topic}|__consumer_offsets)$")
        poll_until(consumer, lambda: bool(consumer.assignment()))
        assert ("__consumer_offsets" in consumer.subscription()) is not excluded


@pytest.mark.parametrize("allowed", [True, False])
def test_a_subscription_creates_its_topic_only_with_allow_auto_create_topics(
    servers: str, group: str, topic: str, allowed: bool
) -> None:
    with (
        ottla.Consumer(
            bootstrap_servers=servers, group_id=group, allow_auto_create_topics=allowed
        ) as consumer,
        ottla.Admin(bootstrap_servers=servers) as admin,
    ):
        consumer.subscribe([topic])
        if allowed:
            poll_until(consumer, lambda: topic in admin.list_topics())
        else:
            poll_for(consumer, 0.3)
            assert topic not in admin.list_topics()
