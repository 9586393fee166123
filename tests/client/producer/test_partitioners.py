"""Records go where every other client with Java's rules would put them."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests import maven

from ottla.client.plugins import partitioners
from ottla.client.plugins.partitioners import (
    DefaultPartitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from ottla.client.state.metadata import ClusterMetadata, PartitionState, Topic
from ottla.model import NO_LEADER, NO_TOPIC_ID
from ottla.records import _client_kernel_py
from ottla.records.client_kernel import murmur2, partition_of_key, partitions_of_keys

VECTORS = Path(__file__).with_name("key_hashes.txt")
PROGRAM = Path(__file__).with_name("java") / "HashKeys.java"


def vectors() -> list[tuple[bytes, int, int, int]]:
    """Key, number of partitions, hash and partition."""
    rows = []
    for line in VECTORS.read_text(encoding="utf-8").splitlines()[1:]:
        key, *numbers = line.split(" ")
        count, hashed, partition = map(int, numbers)
        rows.append((bytes.fromhex(key), count, hashed, partition))
    assert len(rows) == 59
    return rows


def cluster(*leaders: int) -> ClusterMetadata:
    """One topic whose partitions have these leaders."""
    states = tuple(PartitionState(i, node, 0, (), (), (), 0) for i, node in enumerate(leaders))
    return ClusterMetadata(topics=MappingProxyType({"t": Topic("t", NO_TOPIC_ID, False, states)}))


def partition(partitioner: Any, key: bytes | None, known: ClusterMetadata) -> int | None:
    found: int | None = partitioner.partition("t", key, key, b"v", b"v", known)
    return found


def test_keys_hash_to_what_java_wrote_down() -> None:
    for key, count, hashed, expected in vectors():
        assert murmur2(key) == _client_kernel_py.murmur2(key) == hashed, key
        assert partition_of_key(key, count) == expected
        assert _client_kernel_py.partition_of_key(key, count) == expected
        assert partitions_of_keys([key], count) == [expected]


def test_keys_hash_to_what_java_says_now(tmp_path_factory: pytest.TempPathFactory) -> None:
    shared_folder = tmp_path_factory.getbasetemp().parent
    jars = maven.kafka_client(shared_folder)
    draw = random.Random()
    cases = [(draw.randbytes(draw.randrange(40)), draw.randrange(1, 2**31)) for _ in range(2000)]
    cases += [(key, count) for key, count, _, _ in vectors()]
    told = subprocess.run(
        ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(PROGRAM)],
        input="".join(f"{key.hex()} {count}\n" for key, count in cases),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    ours = [f"{murmur2(key)} {partition_of_key(key, count)}" for key, count in cases]
    assert ours == told


def test_a_key_decides_even_if_its_partition_has_no_leader() -> None:
    key = b"key-0"
    expected = partition_of_key(key, 3)
    leaders = [1, 1, 1]
    leaders[expected] = NO_LEADER
    assert partition(DefaultPartitioner(), key, cluster(*leaders)) == expected
    assert partition(DefaultPartitioner(), b"", cluster(*leaders)) == partition_of_key(b"", 3)


def test_without_a_key_the_sticky_partition_is_left_to_choose() -> None:
    assert partition(DefaultPartitioner(), None, cluster(1, 1)) is None
    assert partition(StickyPartitioner(), b"key", cluster(1, 1)) is None


def test_round_robin_ignores_keys_and_partitions_without_leader() -> None:
    partitioner = RoundRobinPartitioner()
    known = cluster(1, NO_LEADER, 2, 1)
    assert [partition(partitioner, b"same", known) for _ in range(7)] == [0, 2, 3, 0, 2, 3, 0]
    nowhere = cluster(NO_LEADER, NO_LEADER)
    assert {partition(partitioner, None, nowhere) for _ in range(4)} == {0, 1}


def test_round_robin_counts_each_topic_by_itself() -> None:
    partitioner = RoundRobinPartitioner()
    states = cluster(1, 1, 1).topics["t"]
    known = ClusterMetadata(topics=MappingProxyType({"t": states, "u": states._replace(name="u")}))
    order = [partitioner.partition(name, None, None, None, None, known) for name in "tutut"]
    assert order == [0, 0, 1, 1, 2]


def test_round_robin_is_fair_with_many_threads() -> None:
    partitioner = RoundRobinPartitioner()
    known = cluster(*[1] * 8)
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: partition(partitioner, None, known), range(8000)))
    assert Counter(drawn) == dict.fromkeys(range(8), 1000)


def test_random_draws_for_each_record_among_partitions_with_a_leader() -> None:
    known = cluster(1, NO_LEADER, 2, 1)
    drawn = Counter(partition(RandomPartitioner(), b"same", known) for _ in range(3000))
    assert set(drawn) == {0, 2, 3}
    assert min(drawn.values()) > 800
    assert {partition(RandomPartitioner(), None, cluster(NO_LEADER)) for _ in range(5)} == {0}


def test_every_built_in_name_gives_a_partitioner() -> None:
    known = cluster(1, 1)
    for made in partitioners.BUILT_IN.values():
        partitioner = made()
        found = partition(partitioner, b"key", known)
        assert found is None or 0 <= found < 2
        partitioner.close()
