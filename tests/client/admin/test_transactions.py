"""Transactions and producers: list, describe, abort, fence."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.broker import txn_requests as ask
from tests.broker.requests import eventually, fill, new_producer_id, produce, sequenced
from tests.client.admin.stage import Stage, essential

import ottla
from ottla.admin import AbortTransactionSpec, NewTopic, TransactionState
from ottla.client.blocking.admin import Admin
from ottla.errors import ErrorCode, KafkaError, PartialFailureError
from ottla.model import TopicPartition

ONGOING = TransactionState.ONGOING


def begin(stage: Stage, topic: str) -> tuple[str, ask.Identity]:
    """A transaction that is open on a topic."""
    transactional_id = ask.new_id()
    ask.await_coordinator(stage.connection, transactional_id)
    who = ask.become(stage.connection, transactional_id)
    assert ask.send(stage.connection, transactional_id, who, topic) is ErrorCode.NONE
    return transactional_id, who


def finish(stage: Stage, transactional_id: str, who: ask.Identity) -> None:
    ask.end(stage.connection, transactional_id, who)
    ask.await_state(stage.connection, transactional_id, "CompleteCommit")


@essential
def test_transactions_are_listed_by_state_producer_duration_and_pattern(stage: Stage) -> None:
    topic = stage.topic()
    open_id, who = begin(stage, topic)
    done_id, other = begin(stage, topic)
    finish(stage, done_id, other)
    both = {open_id, done_id}

    def listed(**filters: object) -> set[str]:
        return both & set(stage.admin.list_transactions(**filters))  # type: ignore[arg-type]

    assert listed() == both
    found = stage.admin.list_transactions()[open_id]
    assert (found.producer_id, found.state) == (who.producer_id, ONGOING)
    description = stage.admin.describe_transactions([open_id])[open_id]
    assert found.coordinator_id == description.coordinator_id
    assert listed(states=[ONGOING]) == {open_id}
    assert listed(states=["CompleteCommit", "Ongoing"]) == both
    assert listed(producer_ids=[who.producer_id]) == {open_id}
    assert listed(transactional_id_pattern=f"{done_id[:-1]}.") == {done_id}
    assert listed(duration_ms=60_000) == set()
    assert eventually(lambda: listed(duration_ms=10, states=[ONGOING]) == {open_id})
    finish(stage, open_id, who)


@essential
def test_transactions_are_described(stage: Stage) -> None:
    topic = stage.topic()
    transactional_id, who = begin(stage, topic)
    found = stage.admin.describe_transactions([transactional_id])[transactional_id]
    assert found.coordinator_id == stage.admin.describe_cluster().nodes[0].id
    assert (found.state, found.producer_id) == (ONGOING, who.producer_id)
    assert found.producer_epoch == who.epoch
    assert found.transaction_timeout_ms == ask.TIMEOUT_MS
    assert found.transaction_start_time_ms is not None
    assert abs(found.transaction_start_time_ms / 1000 - time.time()) < 60
    assert found.partitions == (TopicPartition(topic, 0),)
    finish(stage, transactional_id, who)
    found = stage.admin.describe_transactions(transactional_id)[transactional_id]
    assert (found.state, found.partitions) == (TransactionState.COMPLETE_COMMIT, ())


@essential
def test_a_transactional_id_that_is_not_there_is_an_error(stage: Stage) -> None:
    transactional_id, who = begin(stage, stage.topic())
    missing = ask.new_id()
    with pytest.raises(KafkaError) as error:
        stage.admin.describe_transactions(missing)
    assert error.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    with pytest.raises(PartialFailureError) as failure:
        stage.admin.describe_transactions([missing, transactional_id])
    assert list(failure.value.results) == [transactional_id]
    finish(stage, transactional_id, who)


@essential
def test_producers_of_partitions_are_described(stage: Stage) -> None:
    topic = stage.topic(2)
    idempotent = new_producer_id(stage.connection)
    assert produce(stage.connection, topic, sequenced(idempotent, 0, 3)).error_code == 0
    transactional_id, who = begin(stage, topic)
    found = stage.admin.describe_producers([(topic, 0), (topic, 1)])
    assert found[TopicPartition(topic, 1)] == ()
    producers = {one.producer_id: one for one in found[TopicPartition(topic, 0)]}
    assert set(producers) == {idempotent, who.producer_id}
    assert producers[idempotent].last_sequence == 2
    assert producers[idempotent].current_transaction_start_offset is None
    assert producers[who.producer_id].current_transaction_start_offset == 3
    node_id = stage.admin.describe_cluster().nodes[0].id
    assert stage.admin.describe_producers([(topic, 0)], broker_id=node_id) == {
        TopicPartition(topic, 0): found[TopicPartition(topic, 0)]
    }
    finish(stage, transactional_id, who)


@essential
def test_a_hanging_transaction_is_aborted_on_its_partition(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage.connection, topic, b"plain")
    transactional_id = ask.new_id()
    ask.await_coordinator(stage.connection, transactional_id)
    ask.become(stage.connection, transactional_id)
    who = ask.become(stage.connection, transactional_id)
    assert ask.send(stage.connection, transactional_id, who, topic) is ErrorCode.NONE
    (state,) = (
        one
        for one in stage.admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]
        if one.producer_id == who.producer_id
    )
    assert state.current_transaction_start_offset == 1
    epoch = state.coordinator_epoch
    spec = AbortTransactionSpec(
        TopicPartition(topic, 0),
        state.producer_id,
        state.producer_epoch,
        -1 if epoch is None else epoch,
    )
    stage.admin.abort_transaction(spec)
    assert ask.last_stable_offset(stage.connection, topic) == 3
    assert ask.committed_values(stage.connection, topic) == [b"plain"]
    older = replace(spec, producer_epoch=state.producer_epoch - 1)
    with pytest.raises(KafkaError) as error:
        stage.admin.abort_transaction(older)
    assert error.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert stage.admin.fence_producers([transactional_id])


@essential
def test_fenced_producers_can_write_no_more(stage: Stage) -> None:
    topic = stage.topic()
    transactional_id, who = begin(stage, topic)
    new_id = ask.new_id()
    found = stage.admin.fence_producers([transactional_id, new_id])
    assert list(found) == [transactional_id, new_id]
    assert found[transactional_id].producer_id == who.producer_id
    assert found[transactional_id].producer_epoch > who.epoch
    assert found[new_id].producer_epoch == 0
    error = ask.send(stage.connection, transactional_id, who, topic, 1)
    assert error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert eventually(lambda: ask.is_healed(stage.connection, topic))
    assert ask.committed_values(stage.connection, topic) == []


def test_a_replica_that_does_not_lead_says_so(three: ottla.Broker, admin_of_three: Admin) -> None:
    admin_of_three.create_topics([NewTopic("led", 1)])
    leader = three.leader_of("led", 0)
    with pytest.raises(KafkaError) as error:
        admin_of_three.describe_producers([("led", 0)], broker_id=leader % 3 + 1)
    assert error.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_transactional_ids_of_all_coordinators_are_found(
    three: ottla.Broker, admin_of_three: Admin
) -> None:
    ids = [f"spread-{number}" for number in range(12)]
    admin_of_three.fence_producers(ids)
    assert set(ids) <= set(admin_of_three.list_transactions())
    found = admin_of_three.describe_transactions(ids)
    assert list(found) == ids
    assert {one.coordinator_id for one in found.values()} == set(three.node_ids)
