"""A data folder of any earlier version opens, a newer one is refused, and no format changes without a new version."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.requests import on_loop
from tests.storage import kept_folders
from tests.storage.conftest import Opener
from tests.storage.format_inventory import formats_of
from tests.storage.kept_folders import KeptFolder
from tests.storage.worker_stores import arrange

import ottla
from ottla.access import AclBinding, Operation, PatternType, Permission, ResourceType
from ottla.broker.clock import SystemClock
from ottla.broker.cluster import LOGIN_SECRET_BYTES
from ottla.broker.runtime import RunningBroker
from ottla.core.security.quotas.entities import QuotaEntity
from ottla.core.security.scram_credentials import fits_password
from ottla.core.security.scram_formulas import ScramMechanism
from ottla.ports import StorageError
from ottla.ports.errors import InUseError, NewerFormatError
from ottla.storage.local import LocalStoreOptions
from ottla.storage.local.folder.format_version import (
    NEWEST_VERSION,
    VERSIONS,
    raise_version,
    read_version,
)

SECONDS = kept_folders.SECONDS
SOURCE = Path(ottla.__file__).parents[1]
FIRST_VERSION_WITH_SECURITY = 4
VERSION_FILE = "format.properties"
ORDERS = kept_folders.ORDERS_PER_PARTITION
KEPT = [
    pytest.param(version, how_it_ended, id=f"v{version}-{how_it_ended}")
    for version in VERSIONS
    for how_it_ended in kept_folders.HOW_IT_ENDED
]


class Partition(NamedTuple):
    topic: str
    number: int


def read(address: str, partition: Partition, isolation: str) -> list[Any]:
    """All records that a consumer sees, as messages of confluent-kafka, whose types allow None everywhere."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "check.crcs": True,
        "fetch.wait.max.ms": 10,
    }
    consumer = confluent_kafka.Consumer(settings)
    # librdkafka waits half a second for the offset of a leader that it does not know yet.
    consumer.list_topics(partition.topic, timeout=SECONDS)
    start = confluent_kafka.TopicPartition(
        partition.topic, partition.number, confluent_kafka.OFFSET_BEGINNING
    )
    consumer.assign([start])
    found = []
    while True:
        message: Any = consumer.poll(SECONDS)
        if message is None:
            raise TimeoutError(f"the end of {partition} was not reached")
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            break
        found.append(message)
    consumer.close()
    return found


def values(address: str, topic: str, isolation: str = "read_committed") -> list[str]:
    return [message.value().decode() for message in read(address, Partition(topic, 0), isolation)]


def committed(address: str, group: str) -> dict[int, tuple[int, str]]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": group})
    asked = [confluent_kafka.TopicPartition("orders", number) for number in range(2)]
    found = {
        each.partition: (each.offset, each.metadata or "")
        for each in consumer.committed(asked, SECONDS)
        if each.offset >= 0
    }
    consumer.close()
    return found


def transactional(address: str, transactional_id: str) -> confluent_kafka.Producer:
    settings = {"bootstrap.servers": address, "transactional.id": transactional_id}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(SECONDS)
    return producer


def open_at(monkeypatch: pytest.MonkeyPatch, folder: KeptFolder) -> ottla.Broker:
    """A broker that finds the folder a minute after it was written: nothing in it is too old."""
    late_by_ms = SystemClock().now_ms() - folder.written_at_ms - 60_000

    class ClockOfThen(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() - late_by_ms

    monkeypatch.setattr("ottla.broker.runtime.SystemClock", ClockOfThen)
    return ottla.Broker(data_dir=folder.path)


def check_all_is_there(address: str) -> None:
    for number in range(kept_folders.PARTITIONS):
        found = read(address, Partition("orders", number), "read_committed")
        first = kept_folders.TRIMMED_TO if number == 1 else 0
        assert [
            (
                message.offset(),
                message.key().decode(),
                message.value().decode(),
                message.timestamp()[1],
                message.headers(),
            )
            for message in found
        ] == [
            (
                offset,
                f"order-{offset}",
                kept_folders.order_value(number, offset),
                kept_folders.TIMESTAMP_MS + 1000 * offset,
                [("table", str(number).encode())],
            )
            for offset in range(first, ORDERS)
        ]
    prices = {}
    changes = read(address, Partition("prices", 0), "read_committed")
    for message in changes:
        prices[message.key().decode()] = message.value() and message.value().decode()
    assert prices == {**kept_folders.PRICES, "dish-4": None}
    assert len(changes) < 5 * kept_folders.PRICE_CHANGES, "it was compacted"
    assert committed(address, "kitchen") == kept_folders.KITCHEN_OFFSETS
    assert committed(address, "waiters") == {
        number: (offset, "") for number, offset in kept_folders.WAITERS_OFFSETS.items()
    }


def check_security_is_there(broker: ottla.Broker) -> None:
    """ACLs, users and quotas, which folders have since version 4."""

    def look(running: RunningBroker) -> None:
        catalog = running.cluster.catalog
        assert [acl for _, acl in catalog.acls.items()] == [
            AclBinding(
                ResourceType.TOPIC,
                "orders",
                PatternType.PREFIXED,
                kept_folders.READER,
                "*",
                Operation.READ,
                Permission.ALLOW,
            )
        ]
        credential = catalog.users.find(ScramMechanism.SCRAM_SHA_256, kept_folders.USER)
        assert credential is not None
        assert credential.salt == kept_folders.SALT
        assert fits_password(ScramMechanism.SCRAM_SHA_256, credential, kept_folders.PASSWORD)
        assert catalog.quotas.entities == {
            QuotaEntity(user=kept_folders.USER, client_id=kept_folders.CLIENT_ID): {
                "producer_byte_rate": kept_folders.BYTE_RATE
            },
            QuotaEntity(ip=kept_folders.ADDRESS): {
                "connection_creation_rate": kept_folders.CONNECTION_RATE
            },
        }
        assert catalog.quotas.of_address(kept_folders.ADDRESS) == kept_folders.CONNECTION_RATE
        assert len(catalog.login_secret) == LOGIN_SECRET_BYTES

    on_loop(broker, look)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("version", "how_it_ended"), KEPT)
def test_a_folder_of_any_version_opens_with_all_that_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, how_it_ended: str
) -> None:
    folder = kept_folders.unpack(kept_folders.archive_of(version, how_it_ended), tmp_path)
    assert read_version(str(folder.path)) == version
    with open_at(monkeypatch, folder) as broker:
        address = broker.bootstrap_servers
        check_all_is_there(address)
        if version >= FIRST_VERSION_WITH_SECURITY:
            check_security_is_there(broker)
        assert values(address, "payments") == kept_folders.COMMITTED, "up to the open transaction"
        assert values(address, "payments", "read_uncommitted") == [
            *kept_folders.COMMITTED[:10],
            *kept_folders.ABORTED,
            *kept_folders.COMMITTED[10:],
            *kept_folders.OPEN,
            *kept_folders.BEHIND_OPEN,
        ]
        transactional(address, kept_folders.TILLS[1])  # which aborts what is open
        seen = [*kept_folders.COMMITTED, *kept_folders.BEHIND_OPEN]
        assert values(address, "payments") == seen
        assert committed(address, "tills") == {0: (kept_folders.TILL_OFFSET, "")}
        for till in kept_folders.TILLS:
            producer = transactional(address, till)
            producer.begin_transaction()
            # By the broker's clock: a record from its future is refused.
            producer.produce("payments", value=f"paid at {till}", timestamp=folder.written_at_ms)
            producer.commit_transaction(SECONDS)
            seen.append(f"paid at {till}")
        assert values(address, "payments") == seen
    assert read_version(str(folder.path)) == NEWEST_VERSION
    with open_at(monkeypatch, folder) as broker:
        check_all_is_there(broker.bootstrap_servers)
        assert values(broker.bootstrap_servers, "payments") == seen
        if version >= FIRST_VERSION_WITH_SECURITY:
            check_security_is_there(broker)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how_it_ended", kept_folders.HOW_IT_ENDED)
def test_a_kept_folder_that_workers_had_opens_with_all_that_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how_it_ended: str
) -> None:
    """Groups, transactions, producers: the start with workers and the way back leave all of it."""
    folder = kept_folders.unpack(
        kept_folders.archive_of(NEWEST_VERSION - 1, how_it_ended), tmp_path
    )
    for count in (3, 2, 5):
        arrange(folder.path, count)
    assert not list(folder.path.glob("*-*/*.log"))
    with open_at(monkeypatch, folder) as broker:
        address = broker.bootstrap_servers
        check_all_is_there(address)
        check_security_is_there(broker)
        transactional(address, kept_folders.TILLS[1])  # which aborts what is open
        seen = [*kept_folders.COMMITTED, *kept_folders.BEHIND_OPEN]
        assert values(address, "payments") == seen
        assert committed(address, "tills") == {0: (kept_folders.TILL_OFFSET, "")}


def test_no_format_changes_without_a_new_version_and_a_folder_that_keeps_it(tmp_path: Path) -> None:
    """Also shows that the program still works which writes the folders."""
    newest = kept_folders.archive_of(NEWEST_VERSION, "stopped")
    kept = kept_folders.unpack(newest, tmp_path / "kept")
    written = kept_folders.write_folder(tmp_path / "written", SOURCE, "stopped")
    assert formats_of(written.path) == formats_of(kept.path), (
        f"a stored format has changed since version {NEWEST_VERSION}: add the next one to format_version.py, and keep "
        "folders of it (tests/storage/kept_folders.py)"
    )


def test_each_version_that_changed_a_format_is_told_apart_by_its_folder(tmp_path: Path) -> None:
    one, two, three = (
        formats_of(
            kept_folders.unpack(
                kept_folders.archive_of(version, "stopped"), tmp_path / str(version)
            ).path
        )
        for version in (1, 2, 3)
    )
    assert sorted(one - two) == ["__consumer_offsets: key 1, value 3"]
    assert sorted(two - one) == [
        "__consumer_offsets: key 1, value 4",
        "format.properties, version 2, with ottla.version",
    ]
    assert sorted(two - three) == ["format.properties, version 2, with ottla.version"]
    assert sorted(three - two) == [
        "format.properties, version 3, with cluster.id, ottla.version",
        "transaction-index-checkpoint, version 0",
    ]


# -- what the folder states


def state_version(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / VERSION_FILE).write_text(text)


def everything_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Names, contents and times of all that is there, and of the folders themselves."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
        for path in (folder, *folder.rglob("*"))
    }


@pytest.fixture
def newer(open_store: Opener, tmp_path: Path) -> Iterator[Path]:
    """A folder of a later version, in which nothing may be changed."""
    folder = tmp_path / "newer"
    open_store(folder).close()
    os.unlink(folder / ".lock")
    state_version(folder, f"version={NEWEST_VERSION + 1}\nottla.version=7.0.0\n")
    before = everything_in(folder)
    yield folder
    assert everything_in(folder) == before


def test_a_newer_folder_is_refused_and_left_as_it_is(open_store: Opener, newer: Path) -> None:
    with pytest.raises(NewerFormatError) as refused:
        open_store(newer)
    assert str(refused.value) == (
        f"the data folder {newer} has format version {NEWEST_VERSION + 1}, and Ottla {ottla.__version__} reads "
        f"versions up to {NEWEST_VERSION}: use Ottla 7.0.0 or later, or another folder"
    )


def test_a_broker_over_a_newer_folder_does_not_start(newer: Path) -> None:
    with pytest.raises(NewerFormatError, match=r"use Ottla 7\.0\.0 or later"):
        ottla.Broker(data_dir=newer).start()


def test_ottla_serve_says_in_one_line_that_a_folder_is_newer(newer: Path) -> None:
    command = [sys.executable, "-m", "ottla", "serve", "--listen=127.0.0.1:0", f"--data={newer}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ottla: the data folder {newer} has format version")


def test_a_folder_that_became_newer_behind_the_first_look_is_refused(tmp_path: Path) -> None:
    state_version(tmp_path, f"version={NEWEST_VERSION + 1}\n")
    with pytest.raises(NewerFormatError, match="use a newer Ottla"):
        raise_version(str(tmp_path), "mine")


def test_a_new_folder_states_the_newest_version(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    text = (tmp_path / VERSION_FILE).read_text()
    stated = f"version={NEWEST_VERSION}\nottla.version={ottla.__version__}\n"
    assert text == f"{stated}cluster.id={store.cluster_id}\n"


def test_a_flipped_bit_in_meta_properties_does_not_change_the_cluster(
    open_store: Opener, tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    cluster_id = store.cluster_id
    store.close()
    meta = tmp_path / "meta.properties"
    good = meta.read_bytes()
    for position in range(good.index(b"\n") + 1):
        for bit in range(8):
            data = bytearray(good)
            data[position] ^= 1 << bit
            meta.write_bytes(data)
            with suppress(StorageError):
                again = open_store(tmp_path)
                assert again.cluster_id == cluster_id, data
                again.close()
    meta.write_bytes(good.replace(cluster_id.encode(), b"another"))
    with pytest.raises(StorageError, match=rf"meta\.properties says cluster\.id=.*'{cluster_id}'"):
        open_store(tmp_path)
    meta.write_bytes(good)
    assert open_store(tmp_path).cluster_id == cluster_id


def test_a_folder_that_states_no_cluster_id_opens(open_store: Opener, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    cluster_id = store.cluster_id
    store.close()
    state_version(tmp_path, f"version={NEWEST_VERSION}\n")
    assert open_store(tmp_path).cluster_id == cluster_id


def test_the_version_is_written_once(open_store: Opener, tmp_path: Path) -> None:
    open_store(tmp_path).close()
    before = (tmp_path / VERSION_FILE).stat()
    open_store(tmp_path).close()
    after = (tmp_path / VERSION_FILE).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_folder_that_is_refused_for_another_reason_keeps_its_version(
    open_store: Opener, tmp_path: Path
) -> None:
    open_store(tmp_path).close()
    (tmp_path / VERSION_FILE).unlink()
    with pytest.raises(StorageError, match=r"belongs to node\.id"):
        open_store(tmp_path, LocalStoreOptions(node_id=2))
    assert not (tmp_path / VERSION_FILE).exists()
    store = open_store(tmp_path)
    (tmp_path / VERSION_FILE).unlink()
    with pytest.raises(InUseError):
        open_store(tmp_path)
    assert not (tmp_path / VERSION_FILE).exists()
    store.close()


@pytest.mark.parametrize(
    "text",
    [
        *("", "version=", "version=0", "version=-1", "version=1.5", "version=٣", "v" * 99),
        f"version={'9' * 5000}",
    ],
)
def test_a_file_that_states_no_version_is_refused_by_its_name(
    open_store: Opener, tmp_path: Path, text: str
) -> None:
    state_version(tmp_path, text)
    with pytest.raises(StorageError, match=r"format\.properties is damaged: it states no version"):
        open_store(tmp_path)
    assert os.listdir(tmp_path) == [VERSION_FILE]


@given(data=st.binary(max_size=60) | st.builds(b"version=%b\n".__mod__, st.binary(max_size=12)))
def test_garbage_is_a_known_version_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / VERSION_FILE).write_bytes(data)
    told = VERSION_FILE
    try:
        assert read_version(str(folder)) in VERSIONS
    except NewerFormatError as error:
        told = f"{error} {VERSION_FILE}"
    except StorageError as error:
        told = str(error)
    assert VERSION_FILE in told
    assert "\n" not in told
