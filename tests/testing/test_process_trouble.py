"""Clients meet a broker that is killed, restarted or paused, a partitioned network, and a full or slow disk."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

import ottla
from ottla.client.raw import RawConnection
from ottla.errors import ConfigError, ErrorCode, IllegalStateError
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.testing import Broker, wait_for
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SECONDS = 30.0
# Sends values one after the other, each acknowledged before the next; calls `between` after the first.
Session = Callable[[str, str, list[bytes], Callable[[], object]], None]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def values_of(broker: Broker, topic: str) -> list[bytes]:
    return [record.value for record in broker.records(topic)]


def after_a_while(action: Callable[[], None]) -> None:
    time.sleep(0.3)
    action()


def send_with_ottla(
    servers: str, topic: str, values: list[bytes], between: Callable[[], object]
) -> None:
    with ottla.Producer(bootstrap_servers=servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value).result(SECONDS)
            if number == 0:
                between()


def send_with_confluent_kafka(
    servers: str, topic: str, values: list[bytes], between: Callable[[], object]
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "reconnect.backoff.max.ms": 100}
    )
    failures: list[Any] = []
    for number, value in enumerate(values):
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(SECONDS) == 0
        if number == 0:
            between()
    assert failures == [None] * len(values)


def send_with_kafka_python(
    servers: str, topic: str, values: list[bytes], between: Callable[[], object]
) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers, acks="all", retries=100)
    for number, value in enumerate(values):
        producer.send(topic, value).get(SECONDS)
        if number == 0:
            between()
    producer.close()


def send_with_aiokafka(
    servers: str, topic: str, values: list[bytes], between: Callable[[], object]
) -> None:
    async def main() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True
        ) as producer:
            for number, value in enumerate(values):
                await producer.send_and_wait(topic, value)
                if number == 0:
                    await asyncio.to_thread(between)

    asyncio.run(main())


SESSIONS = pytest.mark.parametrize(
    "send",
    [send_with_ottla, send_with_confluent_kafka, send_with_kafka_python, send_with_aiokafka],
    ids=["ottla", "confluent-kafka", "kafka-python", "aiokafka"],
)


@SESSIONS
def test_a_client_goes_on_after_a_kill_and_what_was_acknowledged_is_there(
    broker: Broker, send: Session
) -> None:
    def kill_and_restart() -> None:
        broker.kill()
        broker.restart()

    servers = broker.bootstrap_servers
    send(servers, "tea", [b"1", b"2", b"3"], kill_and_restart)
    assert broker.bootstrap_servers == servers
    assert values_of(broker, "tea") == [b"1", b"2", b"3"]


def test_a_cluster_is_where_it_was_after_a_kill_and_after_a_clean_restart() -> None:
    with Broker(nodes=3) as broker:
        servers = broker.bootstrap_servers
        send_with_ottla(servers, "tea", [b"1"], broker.restart)
        assert broker.bootstrap_servers == servers
        broker.kill_node(2)
        broker.kill()
        assert broker.bootstrap_servers != servers  # node 2 was not there
        with pytest.raises(IllegalStateError, match="not running"):
            broker.records("tea")
        broker.restart()
        assert broker.bootstrap_servers == servers
        assert values_of(broker, "tea") == [b"1"]
        folder = broker.data_dir
    assert not os.path.exists(folder)
    assert not os.path.exists(folder + ".killed")


def test_a_killed_broker_recovers_as_after_a_crash(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    send_with_ottla(broker.bootstrap_servers, "tea", [b"1"], lambda: None)
    with caplog.at_level("INFO", "ottla.storage"):
        broker.restart()
        clean = [record.getMessage() for record in caplog.records]
        caplog.clear()
        broker.kill()
        broker.restart()
    unclean = [record.getMessage() for record in caplog.records]
    assert not any("unclean" in text for text in clean)
    assert any("unclean" in text for text in unclean)
    assert values_of(broker, "tea") == [b"1"]


def test_a_broker_that_was_killed_can_be_stopped_and_started_anew(broker: Broker) -> None:
    send_with_ottla(broker.bootstrap_servers, "tea", [b"1"], lambda: None)
    broker.kill()
    with pytest.raises(IllegalStateError, match=r"was killed, call restart\(\)"):
        broker.records("tea")
    broker.stop()
    with pytest.raises(IllegalStateError, match="never started"):
        broker.restart()
    broker.start()
    with pytest.raises(ConfigError, match="no topic"):
        broker.records("tea")


@SESSIONS
def test_a_paused_broker_keeps_connections_and_answers_when_it_goes_on(
    broker: Broker, send: Session
) -> None:
    took: list[float] = []

    def pause_for_a_while() -> None:
        broker.pause()
        took.append(time.monotonic())
        threads.submit(after_a_while, broker.unpause)

    with ThreadPoolExecutor(1) as threads:
        send(broker.bootstrap_servers, "tea", [b"1", b"2"], pause_for_a_while)
    assert time.monotonic() - took[0] >= 0.3
    assert values_of(broker, "tea") == [b"1", b"2"]


def test_a_child_of_the_test_does_not_touch_the_broker(broker: Broker) -> None:
    child = os.fork()
    if child == 0:
        refused = 0
        for touch in (broker.kill, broker.restart, broker.pause):
            try:
                touch()
            except IllegalStateError:
                refused += 1
        broker.stop()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert broker.groups() == {}


def test_a_broker_that_cannot_start_leaves_no_folder(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ottla.OttlaError, match="in use"):
        Broker(listen=broker.bootstrap_servers).start()
    assert list(tmp_path.iterdir()) == []


def test_a_paused_broker_says_so_to_the_test(broker: Broker) -> None:
    with broker.pause():
        for look in (
            lambda: broker.records("tea"),
            lambda: broker.clock.advance(1),
            lambda: broker.leader_of("tea", 0),
            broker.pause,
        ):
            with pytest.raises(IllegalStateError, match="paused"):
                look()
    assert broker.groups() == {}


def test_what_reached_a_paused_broker_is_lost_if_it_is_killed(broker: Broker) -> None:
    send_with_ottla(broker.bootstrap_servers, "tea", [b"1"], lambda: None)
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers,
        delivery_timeout_ms=1500,
        request_timeout_ms=1000,
    ) as producer:
        producer.send("tea", b"2").result(SECONDS)
        broker.pause()
        lost = producer.send("tea", b"3")
        time.sleep(0.1)
        broker.kill()
        with pytest.raises(ottla.OttlaError):
            lost.result(SECONDS)
    broker.restart()
    assert values_of(broker, "tea") == [b"1", b"2"]


def test_a_partition_hides_one_client_and_no_other(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    with (
        ottla.Producer(bootstrap_servers=servers, client_id="lost", request_timeout_ms=500) as lost,
        ottla.Producer(bootstrap_servers=servers, client_id="other") as other,
    ):
        lost.send("tea", b"1").result(SECONDS)
        with broker.faults.partition_network(client_id="lost"):
            sent = lost.send("tea", b"3")
            other.send("tea", b"2").result(SECONDS)
            wait_for(
                lambda: any(request.lost for request in broker.requests("Produce", topic="tea"))
            )
            assert not sent.done()
        assert sent.result(SECONDS).offset == 2
    assert values_of(broker, "tea") == [b"1", b"2", b"3"]


def test_confluent_kafka_gives_up_when_a_partition_lasts(broker: Broker) -> None:
    send_with_ottla(broker.bootstrap_servers, "tea", [b"1"], lambda: None)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "lost",
            "message.timeout.ms": 500,
        }
    )
    failures: list[Any] = []
    with broker.faults.partition_network(client_id=["lost"]):
        producer.produce("tea", b"2", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(SECONDS) == 0
    assert [error.name() for error in failures] == ["_MSG_TIMED_OUT"]
    assert values_of(broker, "tea") == [b"1"]


def test_a_transaction_ends_only_when_a_partition_between_nodes_has_healed() -> None:
    with Broker(nodes=2) as broker:
        with ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([ottla.admin.NewTopic("tea", 2)])
        with ottla.Producer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="t"
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("tea", b"1", partition=partition).result(SECONDS)
            with broker.faults.partition_network(node=2), ThreadPoolExecutor(1) as threads:
                committed = threads.submit(producer.commit_transaction)
                time.sleep(0.2)
                assert len(values_of(broker, "tea")) < 2
                broker.faults.clear()
                committed.result(SECONDS)
        wait_for(lambda: len(values_of(broker, "tea")) == 2)


def test_a_partition_that_separates_nothing_is_refused(broker: Broker) -> None:
    with pytest.raises(ConfigError, match="needs client_id= or node="):
        broker.faults.partition_network()
    with pytest.raises(ConfigError, match="there is no node 7: the nodes are 1"):
        broker.faults.partition_network(node=7)
    with Broker(nodes=2) as two, pytest.raises(ConfigError, match="on the same side"):
        two.faults.partition_network(node=[1, 2])


@SESSIONS
def test_records_are_taken_again_when_a_full_disk_has_room(broker: Broker, send: Session) -> None:
    def fill_for_a_while() -> None:
        broker.faults.fill_disk()
        threads.submit(after_a_while, broker.faults.clear)

    with ThreadPoolExecutor(1) as threads:
        send(broker.bootstrap_servers, "tea", [b"1", b"2"], fill_for_a_while)
    errors = [request.errors for request in broker.requests("Produce", topic="tea")]
    assert {"KAFKA_STORAGE_ERROR": 1} in errors
    assert values_of(broker, "tea") == [b"1", b"2"]


def test_a_full_disk_refuses_new_topics(broker: Broker) -> None:
    with (
        broker.faults.fill_disk(),
        ottla.Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        pytest.raises(ottla.KafkaError) as caught,
    ):
        admin.create_topics([ottla.admin.NewTopic("tea")], timeout=1)
    assert caught.value.code in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT)
    assert "tea" not in broker._call(lambda running: running.cluster.catalog.topics)


def test_a_slow_disk_holds_acknowledgements_back_in_order(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    send_with_ottla(servers, "tea", [b"0"], lambda: None)
    with ottla.Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        producer.send("tea", b"1").result(SECONDS)
        broker.clock.freeze()
        with broker.faults.slow_disk("1s"):
            first = producer.send("tea", b"2")
            wait_for(lambda: len(broker.requests("Produce", topic="tea")) == 3)
            second = producer.send("tea", b"3")
            time.sleep(0.1)
            assert not first.done()
            assert not second.done()
            broker.clock.advance("2s")
            assert (first.result(SECONDS).offset, second.result(SECONDS).offset) == (2, 3)
    with pytest.raises(ConfigError, match="delay of 0"):
        broker.faults.slow_disk(0)


def test_a_broker_that_starts_over_is_empty_and_where_it_was(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    send_with_ottla(servers, "tea", [b"1", b"2"], lambda: None)
    broker.faults.add("Produce", drop="after")
    broker.clock.freeze()
    broker.pause()
    assert broker.state == "paused"
    broker.start_over()
    assert (broker.state, broker.bootstrap_servers) == ("running", servers)
    assert (len(broker.faults), broker.clock.is_frozen, broker.requests()) == (0, False, [])
    with pytest.raises(ConfigError, match="no topic 'tea'"):
        broker.records("tea")
    send_with_ottla(servers, "tea", [b"3"], lambda: None)
    assert values_of(broker, "tea") == [b"3"]
    folder = Path(broker.data_dir)
    broker.stop()
    assert not folder.exists()
    assert broker.state == "down"


def test_a_broker_with_a_folder_of_the_test_does_not_start_over(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        send_with_ottla(broker.bootstrap_servers, "tea", [b"1"], lambda: None)
        with pytest.raises(IllegalStateError, match="temporary folder"):
            broker.start_over()
        assert values_of(broker, "tea") == [b"1"]
    with pytest.raises(IllegalStateError, match="temporary folder"):
        Broker().start_over()


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/link"])
def test_a_kill_keeps_the_data_in_a_folder_of_the_user(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    if "link" in form:
        (tmp_path / "real").mkdir()
        (folder / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    with Broker(data_dir=form.format(folder)) as broker:
        with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"tea").result(20)
        broker.kill()
        assert broker.was_killed
        broker.restart()
        assert [record.value for record in broker.records("orders")] == [b"tea"]


def test_an_error_without_acknowledgements_ends_the_connection_and_sends_nothing() -> None:
    with Broker() as broker, RawConnection(broker.bootstrap_servers) as connection:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        connection.call(asked, MetadataResponse, 12)
        broker.faults.add("Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER")
        data = [PartitionProduceData(index=0, records=build_batch([Record(0, 5, None, b"v")]))]
        topics = [TopicProduceData(name="orders", partition_data=data)]
        connection.send(ProduceRequest(acks=0, timeout_ms=5000, topic_data=topics), 9)
        connection.socket.settimeout(10)
        assert connection.socket.recv(1) == b""
        assert broker.records("orders") == []


@pytest.mark.parametrize("trouble", ["delay", "slow disk", "network partition", "pause"])
def test_a_kill_that_fails_beside_a_fault_leaves_a_broker_that_starts_again(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers, client_id="till") as producer:
        producer.send("tea", b"1").result(SECONDS)
        match trouble:
            case "delay":
                broker.faults.add("Produce", delay="10m")
            case "slow disk":
                broker.faults.slow_disk("10m")
            case "network partition":
                broker.faults.partition_network(client_id="till")
            case "pause":
                broker.pause()
        held = producer.send("tea", b"2")
        if trouble != "pause":
            wait_for(lambda: len(broker.requests("Produce")) == 2)

        def fail(data_dir: str, copy_dir: str) -> None:
            raise OSError("no room for the copy")

        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with monkeypatch.context() as patch:
            patch.setattr("ottla.testing.broker._copy_contents", fail)
            with pytest.raises(OSError, match="no room for the copy"):
                broker.kill()
        assert os.listdir(tmp_path) == []
        assert broker.was_killed
        broker.faults.clear()
        broker.restart()
        held.result(SECONDS)
    assert values_of(broker, "tea") == [b"1", b"2"]


@pytest.mark.parametrize("trouble", ["delay", "slow disk", "network partition"])
def test_a_restart_does_not_wait_for_what_a_fault_holds_back_and_the_fault_stays(
    broker: Broker, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers, client_id="till") as producer:
        producer.send("tea", b"1").result(SECONDS)
        if trouble == "delay":
            broker.faults.add("Produce", delay="10m", times=1)
        elif trouble == "slow disk":
            broker.faults.slow_disk("10m")
        else:
            broker.faults.partition_network(client_id="till")
        held = producer.send("tea", b"2")
        wait_for(lambda: len(broker.requests("Produce")) == 2)
        began = time.monotonic()
        broker.restart()
        assert time.monotonic() - began < 2.5, "less than a stop waits for clients"
        assert len(broker.faults) == 1
        broker.faults.clear()
        held.result(SECONDS)
    assert "destroyed" not in caplog.text
    assert values_of(broker, "tea") == [b"1", b"2"]


def test_a_cluster_without_a_running_node_says_where_it_will_be_and_what_to_do() -> None:
    with Broker(nodes=2) as broker:
        servers = broker.bootstrap_servers
        for node in (1, 2):
            broker.kill_node(node)
        assert (broker.bootstrap_servers, broker.node_ids) == (servers, [])
        with pytest.raises(IllegalStateError, match="every node was killed: call start_node"):
            broker.records("tea")


def test_two_threads_change_faults_and_the_clock_while_clients_work(broker: Broker) -> None:
    troubles: list[BaseException] = []
    is_over = threading.Event()

    def disturb(seed: int) -> None:
        choose = random.Random(seed)
        try:
            while not is_over.is_set():
                kinds: list[Callable[[], Any]] = [
                    lambda: broker.faults.add("Produce", drop="after", times=1),
                    lambda: broker.faults.add("Produce", error=6, probability=0.5, seed=seed),
                    lambda: broker.faults.add(delay="10m", client_id="till"),
                    lambda: broker.faults.slow_disk("10m"),
                    lambda: broker.faults.partition_network(client_id="till"),
                ]
                fault = choose.choice(kinds)()
                broker.clock.advance("1ms")
                list(map(str, broker.requests()[-3:]))
                list(broker.faults)
                time.sleep(0.002)
                broker.faults.remove(fault)
        except BaseException as error:
            troubles.append(error)

    threads = [threading.Thread(target=disturb, args=(seed,)) for seed in range(2)]
    options: Any = {"bootstrap_servers": broker.bootstrap_servers, "client_id": "till"}
    with ottla.Producer(linger_ms=0, retry_backoff_ms=1, **options) as producer:
        for thread in threads:
            thread.start()
        sent = [str(number).encode() for number in range(12)]
        for value in sent:
            producer.send("tea", value).result(SECONDS)
        is_over.set()
        for thread in threads:
            thread.join(SECONDS)
    assert troubles == []
    assert len(broker.faults) == 0
    assert values_of(broker, "tea") == sent
