"""Requests about many things reach the catalog in one step: one sync, not one for each."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.nodes import nodes_of
from tests.broker.requests import create, fetch, fill, session_with
from tests.broker.test_create_partitions import ask as grow
from tests.broker.test_create_partitions import wanted
from tests.broker.test_delete_topics import by_name
from tests.broker.test_elect_leaders import ask as elect
from tests.storage.conftest import crash_copy, is_about

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

PARTITIONS = 30
TOPICS = 8


class LoopSyncs:
    """What the thread of the event loop has synced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fsync = os.fsync
        self.names: list[str] = []

    def sync(self, fd: int) -> None:
        on_disk_thread = threading.current_thread().name.startswith(("ottla-storage", "ottla-back"))
        if is_about(self._folder, fd) and not on_disk_thread:
            self.names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        self._fsync(fd)

    def take(self) -> list[str]:
        taken, self.names = self.names, []
        return taken


@pytest.fixture
def syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoopSyncs:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    made = LoopSyncs(tmp_path)
    monkeypatch.setattr(os, "fsync", made.sync)
    monkeypatch.setattr("ottla.storage.local.sync.group_commit._sync_data", made.sync)
    return made


@pytest.fixture
def topics(start: Starter) -> Iterator[tuple[RawConnection, list[str]]]:
    with session_with(start(log_flush_scheduler_interval_ms=60_000)) as connection:
        names = [f"topic-{number}" for number in range(TOPICS)]
        for name in names:
            create(connection, name, 2)
            for partition in range(2):
                fill(connection, name, b"v", partition=partition)
        yield connection, names


@pytest.mark.parametrize("config", [{}, {"flush.messages": "1"}], ids=["plain", "flushed"])
def test_many_elections_raise_the_epoch_once(
    start: Starter, topic: str, syncs: LoopSyncs, config: dict[str, str]
) -> None:
    with nodes_of(start(nodes=3)) as nodes:
        create(nodes.any, topic, PARTITIONS, config=config)
        for partition in range(PARTITIONS):
            fill(nodes.leader(topic, partition), topic, b"v", partition=partition)
            nodes.move(topic, partition)
        epochs = [nodes.epoch(topic, partition) for partition in range(PARTITIONS)]
        syncs.take()
        answer = elect(nodes.any, 2, {topic: [*range(PARTITIONS), 0, PARTITIONS]})
        assert syncs.take() == ["catalog.journal"]
        (about,) = answer.replica_election_results
        assert [each.error_code for each in about.partition_result] == [
            *[ErrorCode.NONE] * PARTITIONS,
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        for partition, epoch in enumerate(epochs):
            assert nodes.epoch(topic, partition) > epoch
            assert fill(nodes.leader(topic, partition), topic, b"w", partition=partition) == [1]


def test_the_starts_of_many_partitions_move_in_one_step(
    start: Starter, topic: str, syncs: LoopSyncs, tmp_path: Path
) -> None:
    with session_with(start(log_flush_scheduler_interval_ms=60_000)) as connection:
        create(connection, topic, PARTITIONS, config={"segment.bytes": "200"})
        for partition in range(PARTITIONS):
            fill(connection, topic, *[b"v" * 100] * 3, partition=partition)
        syncs.take()
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=partition, offset=2)
                        for partition in range(PARTITIONS)
                    ],
                )
            ],
            timeout_ms=1000,
        )
        (about,) = connection.call(request, DeleteRecordsResponse, 2).topics
        assert syncs.take() == ["log-start-offset-checkpoint.tmp", "data"]
        assert {each.error_code for each in about.partitions} == {ErrorCode.NONE}
    # As a kill would leave it.
    copied = crash_copy(tmp_path / "data", tmp_path / "copied")
    with session_with(start(data_dir=copied)) as connection:
        for partition in range(PARTITIONS):
            assert fetch(connection, topic, 2, partition=partition).log_start_offset == 2


def test_many_topics_grow_in_one_step(
    topics: tuple[RawConnection, list[str]], syncs: LoopSyncs
) -> None:
    connection, names = topics
    results = grow(connection, *(wanted(name, 4) for name in names), wanted("no-such-topic", 4))
    assert syncs.take() == ["catalog.journal"]
    assert [each.error_code for each in results] == [
        *[ErrorCode.NONE] * TOPICS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    for name in names:
        assert fill(connection, name, b"v", partition=3) == [0]


def test_many_topics_are_configured_in_one_step(
    topics: tuple[RawConnection, list[str]], syncs: LoopSyncs
) -> None:
    connection, names = topics
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=2,
                resource_name=name,
                configs=[AlterableConfig(name=option, config_operation=0, value="100000")],
            )
            for name in names
            for option in ["retention.ms" if name != names[3] else "no.such.option"]
        ],
        validate_only=False,
    )
    answer = connection.call(request, IncrementalAlterConfigsResponse, 1)
    assert syncs.take() == ["catalog.journal"]
    errors = [each.error_code for each in answer.responses]
    assert errors.pop(3) == ErrorCode.INVALID_CONFIG
    assert set(errors) == {ErrorCode.NONE}


def test_many_topics_are_deleted_in_one_step(
    topics: tuple[RawConnection, list[str]], syncs: LoopSyncs, tmp_path: Path
) -> None:
    connection, names = topics
    syncs.take()
    assert by_name(connection, *names) == [ErrorCode.NONE] * TOPICS
    # The deletion; the folder, without the partitions; that nothing is left.
    assert syncs.take() == ["catalog.journal", "data", "catalog.journal"]
    assert not [path for path in (tmp_path / "data").iterdir() if path.name in names]
