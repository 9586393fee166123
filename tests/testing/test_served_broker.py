"""`ottla serve` under test: killed, restarted, paused, and looked into."""

from __future__ import annotations

import os
import time
from pathlib import Path

import confluent_kafka
import pytest

import ottla
from ottla.errors import ConfigError, IllegalStateError, OttlaError
from ottla.testing import ServedBroker

SECONDS = 30.0


def test_a_served_broker_is_killed_restarted_and_paused() -> None:
    with ServedBroker({"num.partitions": 1}) as broker:
        servers, first_pid = broker.bootstrap_servers, broker.pid
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 100,
            }
        )
        producer.produce("tea", b"1")
        assert producer.flush(SECONDS) == 0
        broker.kill()
        assert not broker.is_running
        with pytest.raises(IllegalStateError, match="not running"):
            broker.records("tea")
        producer.produce("tea", b"2")
        broker.restart()
        assert producer.flush(SECONDS) == 0
        assert (broker.bootstrap_servers, broker.pid != first_pid) == (servers, True)
        with broker.pause():
            producer.produce("tea", b"3")
            assert producer.flush(0.3) == 1
            with pytest.raises(IllegalStateError, match="paused"):
                broker.records("tea")
        assert producer.flush(SECONDS) == 0
        assert [record.value for record in broker.records("tea")] == [b"1", b"2", b"3"]
        broker.restart()  # cleanly, this time
        assert "stopped cleanly" in broker.log
        folder = broker.data_dir.parent
    assert not folder.exists()
    assert not os.path.exists(f"/proc/{first_pid}")
    broker.stop()


def test_the_data_of_a_given_folder_stays(tmp_path: Path) -> None:
    with ServedBroker(data_dir=tmp_path / "data") as broker:
        broker.seed({"tea": {"records": [{"value": "1"}]}})
        broker.pause()  # a stop ends the pause
    with (
        ottla.Broker(data_dir=tmp_path / "data") as embedded,
        ottla.Consumer(bootstrap_servers=embedded.bootstrap_servers) as consumer,
    ):
        assert "tea" in consumer.list_topics()


def test_a_process_that_does_not_start_or_has_ended_says_why() -> None:
    with pytest.raises(ConfigError, match=r"num\.partition"):
        ServedBroker({"num.partition": 3})
    with ServedBroker() as broker:
        with pytest.raises(OttlaError, match=r"ended with code .*in use"):
            ServedBroker(listen=broker.bootstrap_servers).start()
        os.kill(broker.pid, 9)
        deadline = time.monotonic() + SECONDS
        while broker.is_running:
            assert time.monotonic() < deadline
        with pytest.raises(IllegalStateError, match="ended with code -9"):
            broker.groups()
        broker.restart()
        assert broker.groups() == {}
    with pytest.raises(IllegalStateError, match="never started"):
        broker.restart()
