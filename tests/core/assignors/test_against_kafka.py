"""Kafka's own assignors, given the same groups, answer the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tests.core.assignors.notation import STICKY_NAMES, assign, claims, cluster, partitions, wants
from tests.core.assignors.oracle import KafkaFailedError, Oracle, start_oracle
from tests.core.assignors.random_groups import RandomGroup
from tests.core.assignors.recorded import RECORDED, Recorded

from ottla.core.assignors.model import Assignment, Subscription
from ottla.core.assignors.protocol import encode_assignment, encode_subscription
from ottla.core.assignors.registry import ASSIGNORS
from ottla.core.assignors.user_data import encode_claim
from ottla.model import TopicPartition

GROUPS = 60
ROUNDS = 5


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with start_oracle(tmp_path_factory.getbasetemp().parent) as started:
        yield started


@pytest.mark.parametrize("name", ASSIGNORS)
def test_shares_are_those_of_kafka_from_rebalance_to_rebalance(oracle: Oracle, name: str) -> None:
    for seed in range(GROUPS):
        group = RandomGroup(Random(f"{seed} {name}"), name)
        for turn in range(ROUNDS):
            subscriptions = group.subscriptions()
            ours = ASSIGNORS[name]().assign(group.cluster, subscriptions)
            kafkas = oracle.assign(name, group.cluster, subscriptions)
            told = {member: share.partitions for member, share in ours.items()}
            expected = {member: share.partitions for member, share in kafkas.items()}
            assert told == expected, f"group {seed}, rebalance {turn}"
            for member, share in ours.items():
                assert encode_assignment(share) == kafkas[member].data
            group.apply(ours)
            group.change()


@pytest.mark.parametrize("recorded", RECORDED, ids=[each.rule for each in RECORDED])
def test_kafka_answers_what_was_recorded(oracle: Oracle, recorded: Recorded) -> None:
    shares = oracle.assign("sticky", recorded.topics, recorded.group)
    texts = {member: " ".join(map(str, share.partitions)) for member, share in shares.items()}
    assert texts == recorded.shares


def test_subscriptions_are_written_as_kafka_writes_them(oracle: Oracle) -> None:
    random = Random(1)
    for _ in range(50):
        group = RandomGroup(random, "cooperative-sticky")
        group.apply(ASSIGNORS["range"]().assign(group.cluster, group.subscriptions()))
        for subscription in group.subscriptions().values():
            for version in range(4):
                ours = encode_subscription(subscription, version)
                assert ours == oracle.subscription_bytes(subscription, version)


@pytest.mark.parametrize("name", STICKY_NAMES)
def test_user_data_is_what_kafka_writes(oracle: Oracle, name: str) -> None:
    random = Random(2)
    for size in [0, 1, 11, 12, 13, 14, 24, 25, 26, *range(30)]:
        topics = [f"{random.choice(['t', 'topic', 'orders.'])}{i}" for i in range(size)]
        owned = [TopicPartition(topic, n) for topic in topics for n in range(random.randint(1, 2))]
        assignor = ASSIGNORS[name]()
        assignor.on_assignment(Assignment(tuple(owned)), size)
        kafkas = oracle.user_data(name, Assignment(tuple(owned)), size)
        assert assignor.subscription_user_data([]) == kafkas


@pytest.mark.parametrize(
    "user_data",
    [
        b"",
        b"\0",
        encode_claim(partitions("t-0 t-1"), 1)[:-4],
        encode_claim(partitions("t-0 t-1"), 1)[:-2],
        encode_claim(partitions("t-0 t-1"), 1)[:-6],
        encode_claim(partitions("t-0 t-1"), 1) + b"more",
        b"\xff" * 20,
    ],
)
@pytest.mark.parametrize("name", STICKY_NAMES)
def test_odd_user_data_is_read_as_kafka_reads_it(
    oracle: Oracle, name: str, user_data: bytes
) -> None:
    odd = Subscription(("t",), user_data, partitions("t-0 t-1"))
    for other in (claims(name, "t", "t-1 t-2", 1), claims(name, "t u", "t-1 t-2", 1)):
        group = {"a": odd, "b": other, "c": odd}
        kafkas = oracle.assign(name, cluster(t=5, u=1), group)
        expected = {
            member: " ".join(map(str, share.partitions)) for member, share in kafkas.items()
        }
        assert assign(name, cluster(t=5, u=1), group) == expected


@pytest.mark.parametrize("name", STICKY_NAMES)
def test_kafka_still_breaks_its_rules_where_we_keep_them(oracle: Oracle, name: str) -> None:
    """The groups of test_sticky.py: when this fails, Kafka has changed, and we can do as it does."""

    def kafkas(counts: dict[str, int], group: dict[str, Subscription]) -> dict[str, str]:
        shares = oracle.assign(name, cluster(**counts), group)
        return {member: " ".join(map(str, share.partitions)) for member, share in shares.items()}

    assert "t-0" in kafkas({"t": 3}, {"c1": wants(""), "c2": wants("t")})["c1"]
    assert "u-" in kafkas({"t": 2, "u": 2}, {"a": wants("t u"), "b": wants("t t")})["b"]
    gone = {
        "c1": claims(name, "t u", "t-0 t-5 u-0"),
        "c2": claims(name, "t u v", "t-1 u-1 u-2"),
    }
    assert "t-5" in kafkas({"t": 2, "u": 3, "v": 1}, gone)["c1"]
    gone["c2"] = claims(name, "t u", "t-1 u-1 u-2")
    with pytest.raises(KafkaFailedError):
        kafkas({"t": 2, "u": 3}, gone)
    away = {
        "c0": claims(name, "t0 t1", "t1-0 t0-0", 3),
        "c1": claims(name, "t1", "t0-0 t1-0", 1),
        "c2": claims(name, "t0", "t0-0", 1),
    }
    assert "t0-0" in kafkas({"t0": 1, "t1": 1}, away)["c1"]
