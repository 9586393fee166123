"""`ottla storage import`: what brokers of a storage answer is what the broker of the folder has answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.shared_brokers.broker_processes import make_storage
from tests.storage.shared.s3_server import S3Server, shared_s3

import ottla
from ottla.admin import NewTopic, OffsetSpec
from ottla.cli.main import main
from ottla.model import TopicPartition
from ottla.storage.shared.storage_urls import StorageUrls
from ottla.storage.transfer import folder_import

__all__ = ["shared_s3"]

PARTITIONS = 2
ORDERS = [TopicPartition("orders", number) for number in range(PARTITIONS)]
PLACES = [*ORDERS, TopicPartition("states", 0), TopicPartition("emptied", 0)]


def fill(servers: str) -> None:
    """Plain, committed, aborted and open transactions, deleted records, compacted keys, offsets of a group."""
    with ottla.Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [
                NewTopic("orders", PARTITIONS, configs={"segment.bytes": "20000"}),
                NewTopic("states", 1, configs={"cleanup.policy": "compact"}),
                NewTopic("emptied", 1),
            ]
        )
        with ottla.Producer(bootstrap_servers=servers) as producer:
            for number in range(600):
                producer.send("orders", b"plain-%d" % number * 20, partition=number % PARTITIONS)
                producer.send("states", b"%d" % number, key=b"key-%d" % (number % 5))
                producer.send("emptied", b"%d" % number)
        _transact(servers)
        admin.delete_records({ORDERS[0]: 37, TopicPartition("emptied", 0): 600})
        admin.alter_consumer_group_offsets("readers", {ORDERS[0]: 50, ORDERS[1]: 60})


def _transact(servers: str) -> None:
    with ottla.Producer(bootstrap_servers=servers, transactional_id="t") as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.send("orders", b"transaction-%d" % number, partition=partition)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def state_of(servers: str) -> dict[str, Any]:
    """What clients see of a cluster."""
    state: dict[str, Any] = {}
    for isolation in ("read_uncommitted", "read_committed"):
        with ottla.Consumer(
            bootstrap_servers=servers, isolation_level=isolation, auto_offset_reset="earliest"
        ) as consumer:
            ends = consumer.end_offsets(PLACES)
            consumer.assign(PLACES)
            found: list[tuple[Any, ...]] = []
            while any(consumer.position(each) < end for each, end in ends.items()):
                found += [
                    (
                        each.topic,
                        each.partition,
                        each.offset,
                        each.leader_epoch,
                        each.timestamp,
                        each.key,
                        each.value,
                    )
                    for each in consumer.poll(5.0)
                ]
            state[isolation] = sorted(found)
            state[f"{isolation} ends"] = ends
            state["starts"] = consumer.beginning_offsets(PLACES)
    with ottla.Admin(bootstrap_servers=servers) as admin:
        state["group"] = {
            place: at.offset
            for place, at in admin.list_consumer_group_offsets({"readers": ORDERS})[
                "readers"
            ].items()
            if at is not None
        }
        state["producers"] = {
            place: sorted(
                (each.producer_id, each.producer_epoch, each.last_sequence)
                for each in found_producers
            )
            for place, found_producers in admin.describe_producers(PLACES).items()
        }
        latest = admin.list_offsets(dict.fromkeys(PLACES, OffsetSpec.LATEST))
        latest = admin.list_offsets(dict.fromkeys(PLACES, OffsetSpec.LATEST))
        state["latest"] = {place: each.offset for place, each in latest.items()}
        described = admin.describe_transactions(["t"])["t"]
        state["transactional id"] = (
            described.producer_id,
            described.producer_epoch,
            described.state,
        )
    return state


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("import") / "data"
    with ottla.Broker(data_dir=folder) as broker:
        fill(broker.bootstrap_servers)
    # Under another epoch.
    with ottla.Broker(data_dir=folder) as broker:
        with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(20):
                producer.send("orders", b"later-%d" % number, partition=number % PARTITIONS)
        return folder, state_of(broker.bootstrap_servers)


@pytest.fixture
def urls(storage_url: str) -> StorageUrls:
    return make_storage(storage_url)


def run_import(folder: Path, urls: StorageUrls) -> int:
    words = ["storage", "import", str(folder), "--storage", urls.storage]
    return main([*words, *(["--objects", urls.objects] if urls.objects else [])])


def test_an_imported_folder_answers_as_before(
    filled: tuple[Path, dict[str, Any]], urls: StorageUrls, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, before = filled
    assert run_import(folder, urls) == 0, capsys.readouterr().err
    with ottla.Broker(storage=urls.storage) as broker:
        assert state_of(broker.bootstrap_servers) == before
        with ottla.Producer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="t"
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            sent = producer.send("orders", b"after", partition=0)
            producer.commit_transaction()
        assert sent.result(10).offset == before["latest"][ORDERS[0]]
        after = state_of(broker.bootstrap_servers)
    assert after["transactional id"][0] == before["transactional id"][0]
    assert _last_epoch(after) > _last_epoch(before)
    assert main(["storage", "check", "--read", "--storage", urls.storage]) == 0


def _last_epoch(state: dict[str, Any]) -> int:
    epochs: list[int] = [epoch for _, _, _, epoch, *_ in state["read_uncommitted"]]
    return max(epochs)


@pytest.mark.campaign
def test_an_import_into_a_bucket_can_be_checked(
    filled: tuple[Path, dict[str, Any]],
    storage_url: str,
    shared_s3: S3Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, before = filled
    urls = make_storage(storage_url, shared_s3.url("imported"))
    assert run_import(folder, urls) == 0, capsys.readouterr().err
    with ottla.Broker(storage=urls.storage, objects=urls.objects) as broker:
        assert state_of(broker.bootstrap_servers) == before
    words = ["storage", "check", "--read", "--storage", urls.storage, "--objects", urls.objects]
    assert main([each for each in words if each]) == 0
    import obstore
    from obstore.store import S3Store

    assert urls.objects is not None
    store = S3Store(
        shared_s3.bucket,
        prefix="imported",
        config={
            "endpoint": shared_s3.endpoint,
            "region": "us-east-1",
            "access_key_id": "OTTLATESTS",
            "secret_access_key": "secret+of/tests=",
        },
        client_options={"allow_http": True},
    )
    obstore.put(store, "left-over", b"1")
    capsys.readouterr()
    assert main([each for each in words if each]) == 1
    assert "orphan   left-over" in capsys.readouterr().out


def test_an_import_that_stopped_goes_on_and_keeps_brokers_away(
    filled: tuple[Path, dict[str, Any]],
    urls: StorageUrls,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, before = filled
    with monkeypatch.context() as patched:
        patched.setattr(folder_import, "_READ_BYTES", 1)
        patched.setattr(folder_import, "_verified", _fail_after(12))
        assert run_import(folder, urls) == 1
    assert "stopped here" in capsys.readouterr().err
    with pytest.raises(ottla.OttlaError, match="has not been finished"):
        ottla.Broker(storage=urls.storage).start()
    assert run_import(folder, urls) == 0, capsys.readouterr().err
    with ottla.Broker(storage=urls.storage) as broker:
        assert state_of(broker.bootstrap_servers) == before


def _fail_after(count: int) -> Any:
    real = folder_import._verified
    left = iter(range(count))

    def verified(*arguments: Any) -> Any:
        if next(left, None) is None:
            raise ottla.OttlaError("stopped here")
        return real(*arguments)

    return verified


def test_an_import_refuses_what_would_lose_data(
    filled: tuple[Path, dict[str, Any]],
    urls: StorageUrls,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, _ = filled
    assert run_import(tmp_path, urls) == 1
    assert "is no data folder" in capsys.readouterr().err
    with ottla.Broker(data_dir=folder):
        assert run_import(folder, urls) == 1
    assert "is in use by another broker" in capsys.readouterr().err
    with ottla.Broker(storage=urls.storage):
        assert run_import(folder, urls) == 1
        text = capsys.readouterr().err
        assert "stop all brokers" in text or "is not empty" in text
    with psycopg.connect(urls.storage.partition("?")[0]) as connection:
        schema = urls.storage.partition("schema=")[2]
        connection.execute(f"UPDATE {schema}.catalog_state SET revision = revision + 1")
    assert run_import(folder, urls) == 1
    assert "the storage is not empty" in capsys.readouterr().err


def test_damaged_batches_are_not_imported(
    urls: StorageUrls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    with ottla.Broker(data_dir=folder) as broker:
        servers = broker.bootstrap_servers
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", 1)])
        with ottla.Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"a long value of an order").result(10)
    (segment,) = (folder / "orders-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[data.index(b"long")] ^= 1
    segment.write_bytes(data)
    assert run_import(folder, urls) == 1
    assert "wrong checksum" in capsys.readouterr().err


@pytest.fixture
def with_workers(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    with ottla.Broker(data_dir=folder, workers=2) as broker:
        servers = broker.bootstrap_servers
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", 6)])
        with ottla.Producer(bootstrap_servers=servers) as producer:
            for number in range(60):
                producer.send("orders", b"%d" % number, partition=number % 6)
    return folder


@pytest.mark.campaign
def test_the_folder_of_workers_is_imported_whole(with_workers: Path, urls: StorageUrls) -> None:
    assert run_import(with_workers, urls) == 0
    with ottla.Broker(storage=urls.storage) as broker:
        places = [TopicPartition("orders", number) for number in range(6)]
        with ottla.Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            assert set(consumer.end_offsets(places).values()) == {10}


def test_a_log_that_begins_far_from_offset_0_is_imported(urls: StorageUrls, tmp_path: Path) -> None:
    """Farther than a segment reaches: the log of the storage has to begin there too."""
    far = 3 << 31
    folder = tmp_path / "data"
    with ottla.Broker(data_dir=folder) as broker:
        servers = broker.bootstrap_servers
        with ottla.Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", 1)])
        with ottla.Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"one").result(10)
    (segment,) = (folder / "orders-0").glob("*.log")
    batch = segment.read_bytes()
    for each in (folder / "orders-0").iterdir():
        if each.name != "partition.metadata":
            each.unlink()
    # The base offset is not part of the checksum.
    moved = far.to_bytes(8, "big") + batch[8:]
    (folder / "orders-0" / f"{far:020}.log").write_bytes(moved)
    for each in folder.glob("*checkpoint*"):
        each.unlink()
    (folder / ".kafka_cleanshutdown").unlink()
    place = TopicPartition("orders", 0)
    assert run_import(folder, urls) == 0
    with ottla.Broker(storage=urls.storage) as broker:
        servers = broker.bootstrap_servers
        with ottla.Producer(bootstrap_servers=servers) as producer:
            assert producer.send("orders", b"two").result(30).offset == far + 1
        with ottla.Consumer(bootstrap_servers=servers) as consumer:
            assert consumer.beginning_offsets([place]) == {place: far}
            consumer.assign([place])
            consumer.seek(place, far)
            found: list[bytes | None] = []
            while len(found) < 2:
                found += [each.value for each in consumer.poll(5.0)]
    assert found == [b"one", b"two"]
