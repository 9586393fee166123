"""A copier's output is exactly once while leaders and both coordinators move, and nodes are killed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.clients.conftest import TRANSACTION_OPTIONS, MakeTransactional
from tests.clients.copying import TURN_RECORDS, Copier, new_copier
from tests.clients.transactions_seen import offsets_partition, transactions_partition

from ottla import Broker
from ottla.model import TopicPartition

PARTITIONS = 2
RECORDS = 7 * TURN_RECORDS
MOVE_SECONDS = 0.2
DOWN_SECONDS = 0.5
PAUSE_SECONDS = 0.2
# Every partition once, then a kill.
LEAST_MOVES, LEAST_KILLS = 6, 1
# Clients that take long over each do not have to suffer for ever: after the last of them there is peace.
MOST_KILLS = 2


class Unrest:
    """Moves the leaders of partitions in turn; nodes are killed and started again in between."""

    def __init__(self, broker: Broker, partitions: list[TopicPartition]) -> None:
        self._broker = broker
        self._partitions = partitions
        self._random = random.Random(5)
        self._is_over = threading.Event()
        self.moves = 0
        self.kills = 0
        self.failure: BaseException | None = None

    def _move(self, partition: TopicPartition) -> None:
        leader = self._broker.leader_of(*partition)
        others = [node_id for node_id in self._broker.node_ids if node_id != leader]
        self._broker.move_leader(*partition, self._random.choice(others))
        self.moves += 1

    def _kill(self) -> None:
        victim = self._random.choice(self._broker.node_ids)
        self._broker.kill_node(victim)
        self.kills += 1
        self._is_over.wait(DOWN_SECONDS)
        self._broker.start_node(victim)

    def _run(self) -> None:
        try:
            while self.kills < MOST_KILLS:
                for partition in self._random.sample(self._partitions, len(self._partitions)):
                    self._move(partition)
                    if self._is_over.wait(MOVE_SECONDS):
                        return
                self._kill()
        except BaseException as error:
            self.failure = error

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()
        if self.failure is not None:
            raise self.failure


def places(copier: Copier) -> list[TopicPartition]:
    """Everything that takes part in the copier's transactions."""
    return [
        *copier.sources,
        *copier.targets,
        offsets_partition(copier.group_id),
        transactions_partition(copier.transactional_id),
    ]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_every_record_has_one_copy_while_leaders_move_and_nodes_are_killed(
    make_transactional: MakeTransactional, ottla_topic: str
) -> None:
    with Broker(TRANSACTION_OPTIONS, nodes=3) as broker:
        copier = new_copier(
            make_transactional(broker.bootstrap_servers), ottla_topic, PARTITIONS, RECORDS
        )
        # Both internal topics are there before anything moves.
        copier.producer().close()
        with copier.member() as member:
            assert not member.committed(copier.sources[0])
        copier.pause_seconds = PAUSE_SECONDS
        unrest = Unrest(broker, places(copier))
        with unrest.going_on():
            copier.run()
        print(f"{unrest.moves} moves, {unrest.kills} kills, failures {copier.failures}")
        assert unrest.moves >= LEAST_MOVES
        assert unrest.kills >= LEAST_KILLS
        copier.check_exactly_once()


@pytest.mark.parametrize("kind", ["transactions", "offsets", "target", "source"])
def test_a_transaction_survives_a_move_of_what_takes_part_in_it(
    make_transactional: MakeTransactional, three_nodes: Broker, ottla_topic: str, kind: str
) -> None:
    """One move in the middle of a transaction is nothing that a client has to abort for."""
    client = make_transactional(three_nodes.bootstrap_servers)
    copier = new_copier(client, ottla_topic, 1, 3 * TURN_RECORDS)
    partition = {
        "transactions": transactions_partition(copier.transactional_id),
        "offsets": offsets_partition(copier.group_id),
        "target": copier.targets[0],
        "source": copier.sources[0],
    }[kind]

    def move() -> None:
        leader = three_nodes.leader_of(*partition)
        node_ids = three_nodes.node_ids
        next_id = node_ids[(node_ids.index(leader) + 1) % len(node_ids)]
        three_nodes.move_leader(*partition, next_id)

    with copier.producer() as producer, copier.member() as member:
        copier.copy(producer, member, member.read(TURN_RECORDS))
        records = member.read(TURN_RECORDS)
        producer.begin()
        move()
        copier.send(producer, member, records)
        move()
        producer.commit()
        copier.copy(producer, member, member.read(TURN_RECORDS))
    copier.check_exactly_once()
