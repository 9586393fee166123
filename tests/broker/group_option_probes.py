"""What each option of groups and offsets does, as an observation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.broker import group_requests as ask
from tests.broker.nodes import Nodes
from tests.broker.option_probes import PATIENCE_SECONDS, Bench, BrokerProbe
from tests.broker.requests import eventually, fetch, now_ms, on_loop
from tests.storage.conftest import patch_in

import ottla
from ottla.broker.coordination.coordinator import Coordinator
from ottla.core.catalog import GROUPS_TOPIC
from ottla.core.group.machine import GroupMachine
from ottla.core.turn import Turn
from ottla.errors import ErrorCode
from ottla.model import coordinator_partition
from ottla.records.batch import split_batches
from ottla.records.compression import Codec
from ottla.storage.local.log.partition_log import LocalLog
from ottla.storage.local.sync import group_commit
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

GROUP = "group"
GROUPS_PARTITIONS = 50
TWO_MINUTES_MS = 120_000
SLOW_SYNC_SECONDS = 0.2


def partitions_of_groups(bench: Bench) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=GROUPS_TOPIC)])
    (topic,) = bench.connection.call(request, MetadataResponse, 9).topics
    return len(topic.partitions)


def partition_of_group(bench: Bench) -> int:
    return coordinator_partition(GROUP, partitions_of_groups(bench))


def coordinator_in(running: Any) -> Coordinator[GroupMachine]:
    """The coordinator's own objects, which no client sees."""
    found = running.node.groups.find(GROUP)
    assert isinstance(found, Coordinator)
    return found


def commit(bench: Bench, **details: Any) -> ErrorCode:
    ask.find_coordinator(bench.connection, GROUP)
    (error,) = ask.commit(bench.connection, GROUP, {(bench.topic, 0): 1}, **details)
    return error


def has_offset(bench: Bench) -> bool:
    found = ask.committed(bench.connection, GROUP, {bench.topic: [0]})
    return found[bench.topic, 0].offset >= 0


def join(bench: Bench, session_timeout_ms: int) -> ErrorCode:
    ask.find_coordinator(bench.connection, GROUP)
    answer = ask.join(bench.connection, GROUP, session_timeout_ms=session_timeout_ms)
    return ErrorCode(answer.error_code)


def first_join_takes_a_while(bench: Bench) -> object:
    ask.find_coordinator(bench.connection, GROUP)
    # The least of some: any one may take long on a busy machine.
    seconds = []
    for number in range(3):
        begun = time.monotonic()
        joined = ask.join_fully(bench.connection, f"{GROUP}-{number}")
        assert joined.error_code == ErrorCode.NONE
        seconds.append(time.monotonic() - begun)
    return min(seconds) >= 0.9 * PATIENCE_SECONDS


def short_session(bench: Bench) -> object:
    return join(bench, 1000)


def long_session(bench: Bench) -> object:
    return join(bench, 60_000)


def second_member(bench: Bench) -> object:
    ask.find_coordinator(bench.connection, GROUP)
    ask.enter(bench.connection, GROUP)
    return join(bench, 30_000)


def long_metadata(bench: Bench) -> object:
    ask.find_coordinator(bench.connection, GROUP)
    position = ask.Position(1, "m" * 11)
    (error,) = ask.commit(bench.connection, GROUP, {(bench.topic, 0): position})
    return error


def commit_on_a_slow_disk(bench: Bench) -> object:
    # The first one makes what there is to make; how long this machine's disk takes for it does not matter here.
    folder = Path(bench.broker.data_dir)
    with pytest.MonkeyPatch.context() as patch:
        patch_in(folder, patch, group_commit, "_sync_data", lambda fd: None)
        assert eventually(lambda: commit(bench) is ErrorCode.NONE)

    def slow(fd: int) -> None:
        time.sleep(SLOW_SYNC_SECONDS)

    with pytest.MonkeyPatch.context() as patch:
        patch_in(folder, patch, group_commit, "_sync_data", slow)
        return commit(bench)


def reads_of_a_replay(bench: Bench) -> object:
    """How often the log is read when the coordinator of three commits is loaded again."""
    for _ in range(3):
        assert commit(bench) is ErrorCode.NONE

    def load_again(running: Any) -> int:
        coordinator = coordinator_in(running)
        coordinator.gone()
        with mock.patch.object(
            type(coordinator.shard), "read", autospec=True, side_effect=type(coordinator.shard).read
        ) as read:
            assert coordinator_in(running) is not coordinator
        return read.call_count

    reads = on_loop(bench.broker, load_again)
    assert has_offset(bench)
    return reads


def expired_offset_goes_soon(bench: Bench) -> object:
    # Before version 5 a commit said itself how long it counts.
    assert commit(bench, version=4, retention_time_ms=0) is ErrorCode.NONE
    return eventually(lambda: not has_offset(bench), bench.patience_seconds)


def offset_is_kept_for_two_minutes(bench: Bench) -> object:
    assert commit(bench) is ErrorCode.NONE

    def expire(running: Any) -> None:
        turn = Turn(now_ms() + TWO_MINUTES_MS, 0)
        coordinator_in(running).machine.expire(turn)

    on_loop(bench.broker, expire)
    return has_offset(bench)


def codec_of_commits(bench: Bench) -> object:
    assert commit(bench) is ErrorCode.NONE
    found = fetch(bench.connection, GROUPS_TOPIC, 0, partition=partition_of_group(bench))
    ((_, header),) = split_batches(bytes(found.records or b""))
    return header.codec


def partition_count(bench: Bench) -> object:
    ask.find_coordinator(bench.connection, GROUP)
    return partitions_of_groups(bench)


def replicas_on_three_nodes(bench: Bench) -> object:
    """One node can have one replica, whatever the option says; three with the same option can have more."""
    option = "offsets.topic.replication.factor"
    factor = on_loop(
        bench.broker, lambda running: running.node.options.config.offsets_topic_replication_factor
    )
    with ottla.Broker({option: factor}, nodes=3) as broker:
        nodes = Nodes(broker)
        ask.find_coordinator(nodes.any, GROUP)
        replicas = len(nodes.partition(GROUPS_TOPIC).replica_nodes)
        for node_id in broker.node_ids:
            nodes.hang_up(node_id)
    return replicas


def segments_after_twenty_commits(bench: Bench) -> object:
    for _ in range(20):
        assert commit(bench) is ErrorCode.NONE

    def count(running: Any) -> int:
        log = coordinator_in(running).shard.log
        assert isinstance(log, LocalLog)
        return len(log.segments())

    return on_loop(bench.broker, count) > 1


GROUP_PROBES: dict[str, BrokerProbe] = {
    "group.initial.rebalance.delay.ms": BrokerProbe(
        str(round(PATIENCE_SECONDS * 1000)), first_join_takes_a_while, True, False
    ),
    "group.max.session.timeout.ms": BrokerProbe(
        "30000", long_session, ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.MEMBER_ID_REQUIRED
    ),
    "group.max.size": BrokerProbe(
        "1", second_member, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.MEMBER_ID_REQUIRED
    ),
    "group.min.session.timeout.ms": BrokerProbe(
        "1000", short_session, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.INVALID_SESSION_TIMEOUT
    ),
    "offset.metadata.max.bytes": BrokerProbe(
        "10", long_metadata, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE
    ),
    "offsets.commit.timeout.ms": BrokerProbe(
        "10",
        commit_on_a_slow_disk,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NONE,
        {"log.flush.interval.messages": "1"},
    ),
    "offsets.load.buffer.size": BrokerProbe("1", reads_of_a_replay, 3, 1),
    "offsets.retention.check.interval.ms": BrokerProbe("10", expired_offset_goes_soon, True, False),
    "offsets.retention.minutes": BrokerProbe("1", offset_is_kept_for_two_minutes, False, True),
    "offsets.topic.compression.codec": BrokerProbe("4", codec_of_commits, Codec.ZSTD, Codec.NONE),
    "offsets.topic.num.partitions": BrokerProbe("3", partition_count, 3, GROUPS_PARTITIONS),
    "offsets.topic.replication.factor": BrokerProbe("2", replicas_on_three_nodes, 2, 3),
    "offsets.topic.segment.bytes": BrokerProbe("1000", segments_after_twenty_commits, True, False),
}
