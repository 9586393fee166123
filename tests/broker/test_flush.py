"""flush.messages and flush.ms: acknowledgements and readers wait for the disk where they should."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    batch_of,
    create,
    eventually,
    fetch,
    fetch_request,
    fill,
    new_producer_id,
    on_loop,
    produce,
    produce_request,
    read_values,
    sequenced,
    session_with,
    values_in,
    waiter_count,
)
from tests.storage.conftest import is_about

import ottla
from ottla.broker.plain_requests import produce as plain_requests
from ottla.broker.runtime import RunningBroker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.storage.local import LocalStore
from ottla.storage.local.sync import group_commit
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.produce import ProduceResponse

LONG_MS = 20_000
HALF_AN_HOUR_MS = 1_800_000
EVERY = {"flush.messages": "1"}


class Disk:
    """A disk whose syncs can be held up, or made to fail."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.is_free = threading.Event()
        self.is_free.set()
        self.begun = 0
        self.done = 0
        self.failing = False

    def sync(self, fd: int) -> None:
        if not is_about(self._folder, fd):
            os.fdatasync(fd)
            return
        self.begun += 1
        assert self.is_free.wait(30)
        if self.failing:
            raise OSError(5, "the disk is broken")
        self.done += 1


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    made = Disk(tmp_path)
    monkeypatch.setattr(group_commit, "_sync_data", made.sync)
    yield made
    made.is_free.set()


def result_of(connection: RawConnection) -> tuple[int, int]:
    result = connection.receive(ProduceResponse, 12).responses[0].partition_responses[0]
    return result.error_code, result.base_offset


@pytest.mark.parametrize("acks", [-1, 1])
def test_an_acknowledgement_waits_for_the_disk_and_so_do_readers(
    start: Starter, disk: Disk, topic: str, acks: int
) -> None:
    broker = start()
    with session_with(broker) as writer, session_with(broker) as reader:
        create(writer, topic, config=EVERY)
        fill(writer, topic, b"first")
        disk.is_free.clear()
        writer.send(produce_request(topic, batch_of(b"second"), acks=acks), 12)
        begun = disk.begun
        assert eventually(lambda: disk.begun > begun - 1 and disk.begun > disk.done)
        # Written, but not durable: nobody sees it.
        found = fetch(reader, topic, 0)
        assert (found.high_watermark, values_in(found)) == (1, [b"first"])
        assert fetch(reader, topic, 1).error_code == ErrorCode.NONE
        reader.send(fetch_request(topic, 1, max_wait_ms=LONG_MS), 12)
        assert eventually(lambda: waiter_count(broker) == 1)
        writer.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            writer.receive_frame()
        writer.socket.settimeout(30)
        disk.is_free.set()
        assert result_of(writer) == (ErrorCode.NONE, 1)
        woken = reader.receive(FetchResponse, 12).responses[0].partitions[0]
        assert values_in(woken) == [b"second"]


def test_what_arrives_during_a_sync_shares_the_next_one(
    start: Starter, disk: Disk, topic: str
) -> None:
    broker = start()
    writers = [RawConnection(broker.bootstrap_servers) for _ in range(20)]
    create(writers[0], topic, config=EVERY)
    fill(writers[0], topic, b"v")
    done = disk.done
    disk.is_free.clear()
    for writer in writers:
        writer.send(produce_request(topic, batch_of(b"v")), 12)
    assert eventually(lambda: disk.begun > done)
    with session_with(broker) as reader:
        fetch(reader, topic, 0)
    disk.is_free.set()
    offsets = [result_of(writer)[1] for writer in writers]
    assert sorted(offsets) == list(range(1, 21))
    assert disk.done - done < 15
    for writer in writers:
        writer.close()


def test_flush_ms_holds_when_the_wall_clock_is_set_back(
    start: Starter, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start(log_flush_scheduler_interval_ms=20)
    with session_with(broker) as connection:
        create(connection, topic, config={"flush.ms": "50"})
        clock = on_loop(broker, lambda running: running.cluster.clock)
        monkeypatch.setattr(clock, "now_ms", lambda: time.time_ns() // 10**6 - HALF_AN_HOUR_MS)
        fill(connection, topic, b"v")

        def synced(running: RunningBroker) -> int:
            store = running.cluster.store
            assert isinstance(store, LocalStore)
            (log,) = [log for log in store._logs() if log.ref.topic == topic]
            return log.durability.synced_offset

        assert eventually(lambda: on_loop(broker, synced) == 1)


def test_answers_keep_their_order_while_they_wait(start: Starter, disk: Disk, topic: str) -> None:
    with session_with(start()) as connection:
        create(connection, topic, config=EVERY)
        plain = f"{topic}-plain"
        create(connection, plain)
        disk.is_free.clear()
        connection.send(produce_request(topic, batch_of(b"slow")), 12)
        connection.send(produce_request(plain, batch_of(b"fast")), 12)
        disk.is_free.set()
        assert [result_of(connection) for _ in range(2)] == [(0, 0), (0, 0)]
        assert read_values(connection, topic) == [b"slow"]


def test_the_repetition_of_a_batch_waits_like_the_first(
    start: Starter, disk: Disk, topic: str
) -> None:
    broker = start()
    with session_with(broker) as first, session_with(broker) as again:
        create(first, topic, config=EVERY)
        disk.is_free.clear()
        first.send(produce_request(topic, sequenced(7, 0)), 12)
        assert eventually(lambda: disk.begun > disk.done)
        again.send(produce_request(topic, sequenced(7, 0)), 12)
        again.socket.settimeout(0.1)
        with pytest.raises(TimeoutError):
            again.receive_frame()
        again.socket.settimeout(30)
        disk.is_free.set()
        assert result_of(first) == (ErrorCode.NONE, 0)
        assert result_of(again) == (ErrorCode.NONE, 0)
        assert fetch(first, topic, 0).high_watermark == 1


def test_a_failing_disk_is_told_and_nothing_is_shown(
    start: Starter, disk: Disk, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start()
    with session_with(broker) as writer, session_with(broker) as reader:
        create(writer, topic, config=EVERY)
        fill(writer, topic, b"good")
        reader.send(fetch_request(topic, 1, max_wait_ms=LONG_MS), 12)
        assert eventually(lambda: waiter_count(broker) == 1)
        disk.failing = True
        result = produce(writer, topic, batch_of(b"bad"))
        assert (result.error_code, result.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert reader.receive(FetchResponse, 12).error_code == ErrorCode.NONE
        disk.failing = False
        assert "storage failed" in caplog.text
        # The partition is claimed anew and goes on; what is in its log is served.
        assert eventually(
            lambda: produce(writer, topic, batch_of(b"again")).error_code == ErrorCode.NONE
        )
        values = read_values(writer, topic)
        assert values[0] == b"good"
        assert values[-1] == b"again"


def test_without_flush_options_nothing_is_synced(start: Starter, disk: Disk, topic: str) -> None:
    with session_with(start()) as connection:
        create(connection, topic)
        disk.is_free.clear()
        begun = disk.begun
        fill(connection, topic, *[b"v"] * 20)
        assert disk.begun == begun
        disk.is_free.set()


def test_flush_messages_counts_records(start: Starter, disk: Disk, topic: str) -> None:
    with session_with(start()) as connection:
        create(connection, topic, config={"flush.messages": "10"})
        begun = disk.begun
        fill(connection, topic, *[b"v"] * 9)
        assert disk.begun == begun
        produce(connection, topic, batch_of(b"v", b"v"))
        assert eventually(lambda: disk.begun > begun)


def test_flush_ms_syncs_in_the_background(start: Starter, disk: Disk, topic: str) -> None:
    broker: ottla.Broker = start(log_flush_scheduler_interval_ms=20)
    with session_with(broker) as connection:
        create(connection, topic, config={"flush.ms": "50"})
        begun = disk.begun
        fill(connection, topic, b"v")
        assert eventually(lambda: disk.begun > begun)


def test_a_topic_that_is_deleted_while_a_sync_is_under_way_is_no_trouble_of_the_disk(
    start: Starter, disk: Disk, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start()
    with (
        session_with(broker) as writer,
        ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        create(writer, topic, config=EVERY)
        fill(writer, topic, b"first")
        disk.is_free.clear()
        writer.send(produce_request(topic, batch_of(b"second")), 12)
        assert eventually(lambda: disk.begun > disk.done)
        with caplog.at_level(logging.INFO):
            deleting = threading.Thread(target=admin.delete_topics, args=([topic],))
            deleting.start()
            assert eventually(lambda: topic not in admin.list_topics())
            disk.is_free.set()
            error, _ = result_of(writer)
            deleting.join(30)
        assert error in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert [line for line in caplog.messages if "storage failed" in line and topic in line] == []


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_client_whose_time_is_over_is_told_so_and_may_ask_again(
    start: Starter, disk: Disk, topic: str, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_plain:
        monkeypatch.setattr(plain_requests, "read_plain_requests", lambda *_: [])
    broker = start()
    with session_with(broker) as writer:
        create(writer, topic, config=EVERY)
        fill(writer, topic, b"first")
        producer_id = new_producer_id(writer)
        disk.is_free.clear()
        hasty = produce_request(topic, sequenced(producer_id, 0))
        hasty.timeout_ms = 100
        began = time.monotonic()
        writer.send(hasty, 12)
        patient = produce_request(topic, sequenced(producer_id, 1))
        writer.send(patient, 12)
        assert result_of(writer) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert 0.09 < time.monotonic() - began < 5
        writer.send(hasty, 12)
        disk.is_free.set()
        assert result_of(writer) == (ErrorCode.NONE, 2)
        assert result_of(writer) == (ErrorCode.NONE, 1), "it was appended once"
