"""A full or failing disk, and damaged files, cost the partitions they concern and nobody else."""

from __future__ import annotations

import errno
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.failing_calls import fail_calls
from tests.broker.processes import ServeProcess
from tests.broker.requests import (
    batch_of,
    create,
    eventually,
    fetch,
    fill,
    on_loop,
    produce,
    read_values,
    session_with,
    values_in,
)
from tests.storage.conftest import patch_in

import ottla
from ottla.broker.partitions import opening as partition_opening
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.storage.local.recovery import folder_recovery
from ottla.testing import Broker
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

SICK, WELL = "sick", "well"
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def leader_of(connection: RawConnection, topic: str) -> tuple[int, int, list[int]]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = connection.call(request, MetadataResponse, 12).topics[0].partitions
    return found.error_code, found.leader_id, found.offline_replicas


def log_dirs(connection: RawConnection) -> dict[str, tuple[int, list[str]]]:
    answer = connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
    return {
        result.log_dir: (result.error_code, [topic.name for topic in result.topics])
        for result in answer.results
    }


def file_of(data: Path, topic: str, suffix: str = ".log") -> Path:
    return data / f"{topic}-0" / f"{0:020d}{suffix}"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failing_write_costs_its_partition_until_the_disk_is_back(
    start: Starter, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    broker = start()
    with session_with(broker) as connection:
        for topic in (SICK, WELL):
            create(connection, topic)
            fill(connection, topic, b"before")
        with monkeypatch.context() as patch:
            fail_calls(patch, broker, SICK, number, "pwrite")
            for _ in range(3):
                assert produce(connection, SICK, batch_of(b"lost")).error_code == STORAGE_ERROR
                fill(connection, WELL, b"meanwhile")
            assert values_in(fetch(connection, SICK, 0)) == [b"before"], "it can still be read"
        assert fill(connection, SICK, b"after") == [1]
        assert read_values(connection, SICK) == [b"before", b"after"]
        assert read_values(connection, WELL) == [b"before", *[b"meanwhile"] * 3]


def test_a_failing_sync_acknowledges_nothing_and_heals(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start(log_flush_interval_messages=1)
    with session_with(broker) as connection:
        for topic in (SICK, WELL):
            create(connection, topic)
            fill(connection, topic, b"before")
        with monkeypatch.context() as patch:
            fail_calls(patch, broker, SICK, errno.EIO, "fdatasync", "fsync")
            for _ in range(2):
                assert produce(connection, SICK, batch_of(b"unsure")).error_code == STORAGE_ERROR
            fill(connection, WELL, b"meanwhile")
        assert eventually(
            lambda: produce(connection, SICK, batch_of(b"after")).error_code == ErrorCode.NONE
        )
        assert [read_values(connection, SICK)[at] for at in (0, -1)] == [b"before", b"after"]
        assert leader_of(connection, SICK)[0] == ErrorCode.NONE


def test_a_partition_that_cannot_be_opened_is_offline_and_comes_back_by_itself(
    ottla_test_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = ottla_test_broker
    with session_with(broker) as connection:
        for topic in (SICK, WELL):
            create(connection, topic)
            fill(connection, topic, b"before")
    broker.restart()
    broker.clock.freeze()
    with session_with(broker) as connection:
        with monkeypatch.context() as patch:
            fail_calls(patch, broker, SICK, errno.EIO, "open")
            assert fetch(connection, SICK, 0).error_code == STORAGE_ERROR
            assert produce(connection, SICK, batch_of(b"lost")).error_code == STORAGE_ERROR
            error, leader, offline = leader_of(connection, SICK)
            assert (error, leader) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
            assert len(offline) == 1
            assert log_dirs(connection) == {
                broker.data_dir: (ErrorCode.NONE, [WELL]),
                f"{broker.data_dir}/{SICK}-0": (STORAGE_ERROR, []),
            }
            fill(connection, WELL, b"meanwhile")
        # No client asks for the partition: clients that see no leader wait for one.
        broker.clock.advance("1m")
        assert eventually(lambda: leader_of(connection, SICK)[0] == ErrorCode.NONE)
        assert values_in(fetch(connection, SICK, 0)) == [b"before"]
        assert list(log_dirs(connection)) == [broker.data_dir]


def test_damage_below_the_recovery_point_takes_the_partition_offline_and_changes_nothing(
    serve_process: ServeProcess,
) -> None:
    serve_process.start("--set", "log.flush.offset.checkpoint.interval.ms=50")
    data = serve_process.data
    with RawConnection(serve_process.address) as connection:
        for topic in (SICK, WELL):
            create(connection, topic)
            fill(connection, topic, *[b"%d" % number for number in range(20)])
    points = data / "recovery-point-offset-checkpoint"
    assert eventually(lambda: points.exists() and f"{SICK} 0 20" in points.read_text())
    serve_process.kill()
    damaged = bytearray(file_of(data, SICK).read_bytes())
    good = bytes(damaged)
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    file_of(data, SICK).write_bytes(damaged)
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        assert leader_of(connection, SICK)[:2] == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert leader_of(connection, WELL)[0] == ErrorCode.NONE
        assert fetch(connection, SICK, 0).error_code == STORAGE_ERROR
        assert len(read_values(connection, WELL)) == 20
        assert file_of(data, SICK).read_bytes() == damaged
        assert str(file_of(data, SICK)) in serve_process.log
        assert "everything below offset 20 was on disk" in serve_process.log
        # Put back what was there, and the partition is served again, without a restart.
        file_of(data, SICK).write_bytes(good)
        assert eventually(lambda: len(values_in(fetch(connection, SICK, 0))) == 20)


def test_damage_found_while_running_takes_the_partition_offline(start: Starter) -> None:
    broker = start(log_segment_bytes=1024 * 1024)
    data = Path(broker.data_dir)
    with session_with(broker) as connection:
        for topic in (SICK, WELL):
            create(connection, topic, config={"segment.bytes": "2000"})
            fill(connection, topic, *[b"x" * 100] * 40)
        # The first segment, whose batches are found by their headers.
        with file_of(data, SICK).open("r+b") as file:
            file.seek(200)
            file.write(bytes(400))
        file_of(data, SICK, ".index").unlink()
        assert eventually(lambda: fetch(connection, SICK, 5).error_code == STORAGE_ERROR)
        for _ in range(3):
            assert produce(connection, SICK, batch_of(b"no")).error_code == STORAGE_ERROR
        no_leader = (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert eventually(lambda: leader_of(connection, SICK)[:2] == no_leader)
        assert len(read_values(connection, WELL)) == 40


class WatchedChecks:
    """Checks of folders that go on when the test says so."""

    def __init__(self, broker: ottla.Broker, patch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        self.may_go_on = threading.Event()
        self._real = folder_recovery.recover
        patch_in(Path(broker.data_dir), patch, folder_recovery, "recover", self._recover)

    def _recover(self, *arguments: Any) -> int:
        self.threads.append(threading.current_thread().name)
        assert self.may_go_on.wait(60)
        return self._real(*arguments)


def test_a_damaged_partition_is_checked_once_and_nobody_waits_for_it(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_opening, "FIRST_RETRY_MS", 10)
    monkeypatch.setattr(partition_opening, "LAST_RETRY_MS", 20)
    broker = start()
    path = file_of(Path(broker.data_dir), SICK)
    with session_with(broker) as connection:
        for topic in (SICK, WELL):
            create(connection, topic, config={"segment.bytes": "2000"})
            fill(connection, topic, *[b"x" * 100] * 40)
        checks = WatchedChecks(broker, monkeypatch)
        good = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(200)
            file.write(bytes(400))
        file_of(Path(broker.data_dir), SICK, ".index").unlink()
        assert eventually(lambda: fetch(connection, SICK, 5).error_code == STORAGE_ERROR)
        assert fetch(connection, SICK, 5).error_code == STORAGE_ERROR
        for number in range(5):
            assert fill(connection, WELL, b"meanwhile") == [40 + number]
            assert produce(connection, SICK, batch_of(b"no")).error_code == STORAGE_ERROR
        checks.may_go_on.set()
        assert eventually(lambda: leader_of(connection, SICK)[1] == -1)
        # Many times it is looked whether the files are others, and never what is in them.
        looked = on_loop(broker, lambda running: count_calls(running.cluster.store, "claim"))
        assert eventually(lambda: tick(broker) or len(looked) >= 3)
        assert len(checks.threads) == 1
        assert checks.threads[0].startswith("ottla-check")
        with path.open("r+b") as file:
            file.write(good)
        assert eventually(lambda: tick(broker) or leader_of(connection, SICK)[1] != -1)
        assert len(checks.threads) == 2
        assert len(read_values(connection, SICK)) == 40


def count_calls(target: Any, name: str) -> list[Any]:
    """A list that grows with every call of a method."""
    calls: list[Any] = []
    real = getattr(target, name)

    def call(*arguments: Any) -> Any:
        calls.append(arguments)
        return real(*arguments)

    setattr(target, name, call)
    return calls


def tick(broker: ottla.Broker) -> bool:
    """Does what is due every second."""
    on_loop(broker, lambda running: running.node.tick())
    return False


def test_a_broker_stops_while_a_partition_is_being_checked(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start()
    path = file_of(Path(broker.data_dir), SICK)
    with session_with(broker) as connection:
        create(connection, SICK)
        fill(connection, SICK, *[b"x" * 100] * 40)
        broker.stop()
        with path.open("r+b") as file:
            file.truncate(500)
        broker = start()
    reached = threading.Event()

    def recover(path: str, trust: Any, interval_bytes: int, cut: Any, pause: Any) -> int:
        reached.set()
        with open(file_of(Path(broker.data_dir), SICK), "rb") as file:
            while True:
                pause(str(path), file.fileno(), 0)

    patch_in(Path(broker.data_dir), monkeypatch, folder_recovery, "recover", recover)
    with session_with(broker) as connection:
        assert produce(connection, SICK, batch_of(b"no")).error_code == STORAGE_ERROR
        assert reached.wait(30)
    broker.stop()


def test_a_file_that_may_not_grow_refuses_appends_until_it_may_again(
    serve_process: ServeProcess,
) -> None:
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        for topic in (SICK, WELL):
            create(connection, topic)
        fill(connection, SICK, *[b"x" * 10_000] * 5)
        no_limit = resource.prlimit(serve_process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(serve_process.pid, resource.RLIMIT_FSIZE, (55_000, no_limit[1]))
        for _ in range(3):
            answer = produce(connection, SICK, batch_of(b"y" * 10_000))
            assert answer.error_code == STORAGE_ERROR
            fill(connection, WELL, b"meanwhile")
            assert len(read_values(connection, SICK)) == 5
        resource.prlimit(serve_process.pid, resource.RLIMIT_FSIZE, no_limit)
        assert fill(connection, SICK, b"after") == [5]
    serve_process.kill()
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        assert len(read_values(connection, SICK)) == 6
        assert len(read_values(connection, WELL)) == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, where this user may make one."""
    folder = tmp_path / "data"
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount command")
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not make a file system: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_refuses_what_does_not_fit_and_serves_the_rest(
    small_disk: Path, serve_process: ServeProcess
) -> None:
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        create(connection, WELL)
        create(connection, SICK, config={"segment.bytes": "50000"})
        kept = 0
        while produce(connection, SICK, batch_of(b"x" * 10_000)).error_code == ErrorCode.NONE:
            kept += 1
            assert kept < 200, "the disk does not fill"
        assert produce(connection, WELL, batch_of(b"y" * 10_000)).error_code == STORAGE_ERROR
        assert len(read_values(connection, SICK)) == kept
    serve_process.kill()
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    serve_process.start()
    with RawConnection(serve_process.address) as connection:
        assert len(read_values(connection, SICK)) == kept
        assert fill(connection, SICK, b"after") == [kept]
        assert fill(connection, WELL, b"after") == [0]
