"""`ottla.Broker(storage=…, nodes=…)`: brokers of one process that have nothing in common but their storage."""

from __future__ import annotations

import time

import pytest
from tests.shared_brokers.broker_processes import make_storage, wait_until

import ottla


@pytest.fixture
def urls(storage_url: str) -> str:
    make_storage(storage_url)
    return storage_url


@pytest.mark.long
def test_nodes_lead_shares_move_leaders_and_survive_a_kill(urls: str) -> None:
    with ottla.Broker(storage=urls, nodes=3, num_partitions=3) as broker:
        assert len(broker.node_ids) == 3
        with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            sent = [
                producer.send("orders", b"%d" % number, partition=number % 3)
                for number in range(30)
            ]
            assert sorted(each.result(60).offset for each in sent) == sorted(list(range(10)) * 3)
            wait_until(
                lambda: (
                    {broker.leader_of("orders", each) for each in range(3)} == set(broker.node_ids)
                )
            )
            leader = broker.leader_of("orders", 0)
            other = next(each for each in broker.node_ids if each != leader)
            broker.move_leader("orders", 0, other)
            assert producer.send("orders", b"moved", partition=0).result(60).offset == 10
            lost = broker.leader_of("orders", 0)
            broker.kill_node(lost)
            assert lost not in broker.node_ids
            # Its lease has to run out first.
            assert producer.send("orders", b"taken over", partition=0).result(60).offset == 11
            broker.start_node(lost)
            assert lost in broker.node_ids
        with ottla.Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="readers",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(["orders"])
            found: list[bytes | None] = []
            deadline = time.monotonic() + 60
            while len(found) < 32 and time.monotonic() < deadline:
                found += [each.value for each in consumer.poll(0.5)]
        assert sorted(filter(None, found)) == sorted(
            [*(b"%d" % each for each in range(30)), b"moved", b"taken over"]
        )


def test_what_was_written_is_there_for_the_next_broker(urls: str) -> None:
    with (
        ottla.Broker(storage=urls) as broker,
        ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        assert producer.send("orders", b"one").result(60).offset == 0
    with (
        ottla.Broker(storage=urls) as broker,
        ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        assert producer.send("orders", b"two").result(60).offset == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"data_dir": "x"}, "storage= and data_dir= exclude"),
        ({"workers": 2}, "storage= and workers= exclude"),
    ],
)
def test_other_places_for_data_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ottla.ConfigError, match=words):
        ottla.Broker(storage="postgresql://nowhere/x", **given)  # type: ignore[arg-type]


def test_a_bucket_needs_a_database() -> None:
    with pytest.raises(ottla.ConfigError, match="--objects has no effect"):
        ottla.Broker(objects="s3://bucket/prefix")
