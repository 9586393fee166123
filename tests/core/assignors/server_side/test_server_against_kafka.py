"""The assignors of Kafka's group coordinator, given the same groups, answer the same."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from tests.core.assignors.server_side.random_server_groups import RandomServerGroup
from tests.core.assignors.server_side.server_oracle import ServerOracle, start_server_oracle
from tests.core.assignors.server_side.worked_examples import EXAMPLES, WorkedExample

from ottla.core.assignors.server_side.registry import SERVER_ASSIGNORS

REBALANCES = 5


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOracle]:
    with start_server_oracle(tmp_path_factory.getbasetemp().parent) as started:
        yield started


def compare(oracle: ServerOracle, name: str, seeds: range) -> None:
    for seed in seeds:
        group = RandomServerGroup(Random(f"{seed} {name}"))
        for turn in range(REBALANCES):
            ours = SERVER_ASSIGNORS[name].assign(group.members, group.partition_counts)
            kafkas = oracle.assign(name, group.members, group.partition_counts)
            # Where there is nothing to assign, Kafka's map is empty: its caller takes that for empty assignments.
            expected = {member_id: kafkas.get(member_id, {}) for member_id in group.members}
            assert ours == expected, f"group {seed}, rebalance {turn}"
            group.apply(ours)
            group.change()


@pytest.mark.parametrize("name", SERVER_ASSIGNORS)
def test_targets_are_those_of_kafka_from_rebalance_to_rebalance(
    oracle: ServerOracle, name: str
) -> None:
    compare(oracle, name, range(60))


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", SERVER_ASSIGNORS)
def test_targets_are_those_of_kafka_in_100_000_rebalances(oracle: ServerOracle, name: str) -> None:
    compare(oracle, name, range(1_000, 21_000))


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.rule for each in EXAMPLES])
def test_kafka_answers_the_worked_examples(oracle: ServerOracle, example: WorkedExample) -> None:
    targets = oracle.assign(example.assignor, example.members, example.partition_counts)
    assert {member_id: targets.get(member_id, {}) for member_id in example.members} == dict(
        example.targets
    )
