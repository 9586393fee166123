"""What each option of transactions does, as an observation."""

from __future__ import annotations

from typing import Any
from unittest import mock

from tests.broker import txn_requests as ask
from tests.broker.group_requests import find_coordinator
from tests.broker.nodes import Nodes
from tests.broker.option_probes import Bench, BrokerProbe
from tests.broker.requests import eventually, now_ms, on_loop

import ottla
from ottla.broker.coordination.coordinator import Coordinator
from ottla.core.catalog import TRANSACTIONS_TOPIC
from ottla.core.turn import Turn
from ottla.core.txn.machine import TransactionMachine
from ottla.errors import ErrorCode
from ottla.storage.local.log.partition_log import LocalLog
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

ID = "pipeline"
TWO_MINUTES_MS = 120_000
PARTITIONS = 50


def init(bench: Bench, **details: Any) -> ask.Identity:
    ask.await_coordinator(bench.connection, ID)
    return ask.become(bench.connection, ID, **details)


def coordinator_in(running: Any) -> Coordinator[TransactionMachine]:
    """The coordinator's own objects, which no client sees."""
    found = running.node.transactions.find(ID)
    assert isinstance(found, Coordinator)
    return found


def timed_out_transaction_ends_soon(bench: Bench) -> object:
    who = init(bench, timeout_ms=1)
    assert ask.send(bench.connection, ID, who, bench.topic) is ErrorCode.NONE
    return eventually(
        lambda: ask.state_of(bench.connection, ID) == "CompleteAbort", bench.patience_seconds
    )


def two_minutes_of_timeout(bench: Bench) -> object:
    ask.await_coordinator(bench.connection, ID)
    return ask.init_error(bench.connection, ID, timeout_ms=TWO_MINUTES_MS)


def write_outside_of_a_transaction(bench: Bench) -> object:
    who = init(bench)
    return ask.send(bench.connection, ID, who, bench.topic, version=ask.PRODUCE_V1)


def unused_id_goes_soon(bench: Bench) -> object:
    init(bench)
    return eventually(lambda: ID not in ask.list_ids(bench.connection), bench.patience_seconds)


def id_is_kept_for_two_minutes(bench: Bench) -> object:
    init(bench)

    def expire(running: Any) -> None:
        coordinator_in(running).machine.expire(Turn(now_ms() + TWO_MINUTES_MS, 0))

    on_loop(bench.broker, expire)
    return ID in ask.list_ids(bench.connection)


def reads_of_a_replay(bench: Bench) -> object:
    """How often the log is read when the coordinator of three producers is loaded again."""
    for _ in range(3):
        who = init(bench)

    def load_again(running: Any) -> int:
        coordinator = coordinator_in(running)
        coordinator.gone()
        with mock.patch.object(
            type(coordinator.shard), "read", autospec=True, side_effect=type(coordinator.shard).read
        ) as read:
            assert coordinator_in(running) is not coordinator
        return read.call_count

    reads = on_loop(bench.broker, load_again)
    assert ask.describe(bench.connection, ID).producer_epoch == who.epoch
    return reads


def with_one_node_of_three(bench: Bench) -> object:
    """Whether a coordinator works while two of three nodes are away."""
    option = "transaction.state.log.min.isr"
    wanted = on_loop(
        bench.broker, lambda running: running.node.options.config.transaction_state_log_min_isr
    )
    with ottla.Broker({option: wanted}, nodes=3) as broker:
        nodes = Nodes(broker)
        ask.await_coordinator(nodes.any, ID)
        (found,) = find_coordinator(nodes.any, ID, key_type=ask.TRANSACTION_KEY).coordinators
        for node_id in broker.node_ids:
            if node_id != found.node_id:
                nodes.kill(node_id)
        error = ask.init_error(nodes.at(found.node_id), ID)
        nodes.close()
    return error


def partition_count(bench: Bench) -> object:
    ask.await_coordinator(bench.connection, ID)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TRANSACTIONS_TOPIC)])
    (topic,) = bench.connection.call(request, MetadataResponse, 9).topics
    return len(topic.partitions)


def replicas_on_three_nodes(bench: Bench) -> object:
    """One node can have one replica, whatever the option says; three with the same option can have more."""
    option = "transaction.state.log.replication.factor"
    factor = on_loop(
        bench.broker,
        lambda running: running.node.options.config.transaction_state_log_replication_factor,
    )
    with ottla.Broker({option: factor}, nodes=3) as broker:
        nodes = Nodes(broker)
        find_coordinator(nodes.any, ID, key_type=ask.TRANSACTION_KEY)
        replicas = len(nodes.partition(TRANSACTIONS_TOPIC).replica_nodes)
        nodes.close()
    return replicas


def segments_after_twenty_producers(bench: Bench) -> object:
    for _ in range(20):
        init(bench)

    def count(running: Any) -> int:
        log = coordinator_in(running).shard.log
        assert isinstance(log, LocalLog)
        return len(log.segments())

    return on_loop(bench.broker, count) > 1


_SWEEP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_EXPIRY = "transaction.remove.expired.transaction.cleanup.interval.ms"

TRANSACTION_PROBES: dict[str, BrokerProbe] = {
    _SWEEP: BrokerProbe("10", timed_out_transaction_ends_soon, True, False),
    "transaction.max.timeout.ms": BrokerProbe(
        "60000",
        two_minutes_of_timeout,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.NONE,
    ),
    "transaction.partition.verification.enable": BrokerProbe(
        "false",
        write_outside_of_a_transaction,
        ErrorCode.NONE,
        ErrorCode.TRANSACTION_ABORTABLE,
    ),
    _EXPIRY: BrokerProbe(
        "10", unused_id_goes_soon, True, False, {"transactional.id.expiration.ms": "1"}
    ),
    "transaction.state.log.load.buffer.size": BrokerProbe("1", reads_of_a_replay, 3, 1),
    "transaction.state.log.min.isr": BrokerProbe(
        "1", with_one_node_of_three, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE
    ),
    "transaction.state.log.num.partitions": BrokerProbe("3", partition_count, 3, PARTITIONS),
    "transaction.state.log.replication.factor": BrokerProbe("2", replicas_on_three_nodes, 2, 3),
    "transaction.state.log.segment.bytes": BrokerProbe(
        "1000", segments_after_twenty_producers, True, False
    ),
    "transactional.id.expiration.ms": BrokerProbe("60000", id_is_kept_for_two_minutes, False, True),
}
