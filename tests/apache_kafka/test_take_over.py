"""A folder that Apache Kafka wrote opens here, after a clean stop and after a crash."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.apache_kafka.programs import START_SECONDS, dump_log, running_kafka
from tests.broker.processes import ServeProcess
from tests.broker.requests import fetch, new_producer_id, produce, records_in, sequenced
from tests.broker.txn_requests import await_state
from tests.storage.batches import SteppingClock
from tests.storage.worker_stores import arrange
from tests.waiting import in_time

from ottla.cli.main import main
from ottla.client.raw import RawConnection
from ottla.core.partition import READ_COMMITTED
from ottla.errors import ErrorCode
from ottla.ports import StorageError
from ottla.storage.local import open_local_store
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

PARTITIONS = 3
RECORDS = 600
KAFKAS_CATALOG = "__cluster_metadata-0"


def wait_for(address: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if admin.list_topics(timeout=2).brokers:
                return admin
        except confluent_kafka.KafkaException:
            in_time(deadline, "Kafka does not answer")


def write(address: str) -> None:
    """Topics with several segments and codecs, by an idempotent and a transactional producer."""
    admin = wait_for(address)
    made = admin.create_topics(
        [
            NewTopic("orders", PARTITIONS, 1, config={"segment.bytes": "1048576"}),
            NewTopic("in.a-transaction_1", 1, 1),
        ]
    )
    for future in made.values():
        future.result(30)
    quiet = {"bootstrap.servers": address, "log_level": 0}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = confluent_kafka.Producer(
            {**quiet, "enable.idempotence": True, "compression.type": codec}
        )
        for number in range(RECORDS):
            producer.produce(
                "orders",
                f"{codec}-{number}-{'x' * 3000}",
                key=f"{number}",
                partition=number % PARTITIONS,
                headers=[("codec", codec)],
            )
        assert producer.flush(30) == 0
    producer = confluent_kafka.Producer({**quiet, "transactional.id": "t"})
    producer.init_transactions(60)
    for turn in ("kept-1", "dropped", "kept-2"):
        producer.begin_transaction()
        for number in range(5):
            producer.produce("in.a-transaction_1", f"{turn}-{number}", partition=0)
        producer.flush(30)
        if turn == "dropped":
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


@pytest.fixture(scope="module")
def written(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of Kafka's folder, as a crash and as a clean stop leave it."""
    folder = tmp_path_factory.mktemp("kafka")
    with running_kafka(kafka_jars, folder) as address:
        write(address)
        with pytest.raises(StorageError, match="in use by another broker"):
            open_local_store(folder / "data", clock=SteppingClock())
        with RawConnection(address) as connection:
            await_state(connection, "t", "CompleteCommit")
        # Kafka renames its temporary files soon.
        no_temporary = shutil.ignore_patterns("*.tmp")
        shutil.copytree(folder / "data", folder / "crash", ignore=no_temporary)
    shutil.copytree(folder / "data", folder / "clean")
    return {"crash": folder / "crash", "clean": folder / "clean"}


@pytest.fixture(params=["clean", "crash", "clean, moved to workers", "crash, moved to workers"])
def serving(
    request: pytest.FixtureRequest, written: dict[str, Path], serve_process: ServeProcess
) -> ServeProcess:
    """Our broker over a copy of Kafka's folder."""
    end, _, is_moved = str(request.param).partition(", ")
    shutil.copytree(written[end], serve_process.data)
    if is_moved:
        arrange(serve_process.data, 3)
    serve_process.start()
    return serve_process


@pytest.fixture
def serve_process(tmp_path: Path) -> Iterator[ServeProcess]:
    process = ServeProcess(tmp_path)
    yield process
    process.kill()


def values(connection: RawConnection, topic: str, partition: int = 0) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while True:
        data = fetch(connection, topic, offset, partition=partition)
        assert data.error_code == ErrorCode.NONE
        records = [record for record in records_in(data) if record.offset >= offset]
        if not records:
            return found
        found += [record.value or b"" for record in records]
        offset = records[-1].offset + 1


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("end", ["clean", "crash"])
def test_our_log_dump_finds_kafkas_folder_good(
    written: dict[str, Path], kafka_tools: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    assert main(["log", "dump", str(written[end]), "--verify-only"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    files = sorted(written[end].glob("__transaction_state-*/*.log"))
    theirs = dump_log(kafka_tools, files, "--transaction-log-decoder")
    assert main(["log", "dump", "--transaction-log-decoder", *map(str, files)]) == 0
    assert capsys.readouterr().out == theirs


def test_kafkas_folder_is_served(serving: ServeProcess) -> None:
    with RawConnection(serving.address) as connection:
        answer = connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
        counts = {topic.name: len(topic.partitions) for topic in answer.topics}
        assert counts == {
            "orders": PARTITIONS,
            "in.a-transaction_1": 1,
            "__transaction_state": 2,
        }
        assert answer.cluster_id.startswith("k"), "the cluster keeps its name"
        for partition in range(PARTITIONS):
            found = values(connection, "orders", partition)
            assert found == [
                f"{codec}-{number}-{'x' * 3000}".encode()
                for codec in ("none", "gzip", "snappy", "lz4", "zstd")
                for number in range(partition, RECORDS, PARTITIONS)
            ]
        dirs = connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
        listed = [topic.name for result in dirs.results for topic in result.topics]
        assert sorted(listed) == sorted(counts)


def test_aborted_records_of_kafkas_are_told(serving: ServeProcess) -> None:
    with RawConnection(serving.address) as connection:
        topic = "in.a-transaction_1"
        data = fetch(connection, topic, 0, isolation_level=READ_COMMITTED)
        assert data.last_stable_offset == data.high_watermark == 18
        (aborted,) = data.aborted_transactions or []
        assert aborted.first_offset == 6
        assert (
            fetch(connection, topic, 12, isolation_level=READ_COMMITTED).aborted_transactions == []
        )


def test_producers_go_on_and_ids_do_not_repeat(serving: ServeProcess) -> None:
    with RawConnection(serving.address) as connection:
        producer_id = new_producer_id(connection)
        assert producer_id > 2**40
        for number in range(2):
            answer = produce(connection, "orders", sequenced(producer_id, number))
            assert answer.error_code == ErrorCode.NONE
            assert answer.base_offset == 5 * RECORDS // PARTITIONS + number
    assert serving.stop() == 0
    serving.start()
    with RawConnection(serving.address) as connection:
        assert len(values(connection, "orders")) == 5 * RECORDS // PARTITIONS + 2


def test_kafkas_own_catalog_is_left_alone(serving: ServeProcess, written: dict[str, Path]) -> None:
    with RawConnection(serving.address) as connection:
        assert values(connection, "orders")
    assert serving.stop() == 0
    before = [files_of(folder / KAFKAS_CATALOG) for folder in written.values()]
    assert files_of(serving.data / KAFKAS_CATALOG) in before
