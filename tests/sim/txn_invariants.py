"""What must hold of transactions: during a run of what coordinators know, and at its end of what readers see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.core.group.topics import EveryTopic
from tests.sim.txn_clients import TxnReader
from tests.sim.txn_history import ABORTED, COMMITTED, Place, Transaction, TxnHistory
from tests.sim.world import World

from ottla.broker.coordination.coordinator import Coordinator
from ottla.broker.node import Node
from ottla.core.catalog import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from ottla.core.group import records as group_records
from ottla.core.group.machine import GroupMachine
from ottla.core.producer_state import ProducerStates
from ottla.core.txn import records as txn_records
from ottla.core.txn.events import TransactionSaved
from ottla.core.txn.machine import TransactionMachine
from ottla.core.txn.states import AT_REST
from ottla.model import TopicPartition
from ottla.records.batch import read_batch, read_header
from ottla.records.control import MarkerType, parse_marker

Values = dict[int, str]  # by offset


# What coordinators and partitions know.


def check_replays(world: World) -> None:
    """Every coordinator knows what a new one would read from the log, no more and no less."""
    for node in running(world):
        for partition, found in node.groups._loaded.items():
            machine = GroupMachine(found.machine.config, EveryTopic())
            _compare(world, found, machine, GROUPS_TOPIC, partition, group_records.decode)
        for partition, of_transactions in node.transactions._loaded.items():
            fresh = TransactionMachine(of_transactions.machine.config, lambda: None)
            _compare(
                world, of_transactions, fresh, TRANSACTIONS_TOPIC, partition, txn_records.decode
            )
    check_producers(world)


def running(world: World) -> Iterator[Node]:
    """Nodes that are at work; one that stands still has not heard of an append that failed."""
    for node_id, node in world.nodes.running.items():
        if not world.nodes.is_frozen(node_id):
            yield node


def _compare(
    world: World,
    found: Coordinator[Any],
    machine: Any,
    topic: str,
    partition: int,
    decode: Any,
) -> None:
    if not found.is_loaded:
        return
    for batch in world.nodes.store.batches(topic, partition):
        header, kept = read_header(batch, 0), read_batch(batch, 0)
        if header.is_control:
            marker = parse_marker(kept[0]) if kept else None
            if marker is not None and marker.type is MarkerType.COMMIT:
                machine.apply_commit_marker(header.producer_id)
            elif marker is not None:
                machine.apply_abort_marker(header.producer_id)
            continue
        for record in kept:
            event = decode(record.key, record.value)
            if event is not None:
                machine.apply(event, header.producer_id if header.is_transactional else None)
    known, replayed = _durable(found.machine), _durable(machine)
    if known != replayed:
        world.trace.note("known: {}", known)
        world.trace.note("in the log: {}", replayed)
    world.check(known == replayed, "{} knows something else than its log", str(found))


def _durable(machine: Any) -> object:
    if not isinstance(machine, TransactionMachine):
        return machine.durable_state()
    # A record has the partitions of a transaction topic by topic.
    return {
        name: saved._replace(partitions=tuple(sorted(saved.partitions)))
        for name, saved in machine._saved.items()
    }


def check_producers(world: World) -> None:
    """Every partition knows of its producers what a replay of its log gives."""
    for node in running(world):
        for shard in node.partitions.open_shards():
            ref, partition = shard.log.ref, shard.partition
            if "compact" in shard.config.cleanup_policy and node.options.config.log_cleaner_enable:
                continue  # what was cleaned away, a snapshot has to tell
            replayed = type(partition)(partition.leader_epoch, 0, 0, ProducerStates())
            for batch in world.nodes.store.batches(ref.topic, ref.partition):
                header = read_header(batch, 0)
                replayed.apply(header, header.base_offset, batch, 0)
            known, found = _producers(partition.producers), _producers(replayed.producers)
            world.check(
                known == found,
                "{}-{} knows the producers {}, its log {}",
                ref.topic,
                ref.partition,
                known,
                found,
            )


def _producers(states: ProducerStates) -> dict[int, tuple[Any, ...]]:
    return {
        producer.producer_id: (
            producer.epoch,
            producer.transaction_first_offset,
            [(sent.last_sequence, sent.last_offset) for sent in producer.recent_batches],
        )
        for producer in states
    }


def check_open(world: World) -> None:
    """A transaction that is open on a partition is one that a coordinator will end there (KIP-890)."""
    saved = _saved(world)
    if saved is None:
        return
    for node in world.nodes.running.values():
        for shard in node.partitions.open_shards():
            ref = shard.log.ref
            for producer_id in shard.partition.producers._open.values():
                found = saved.get(producer_id)
                world.check(
                    found is not None
                    and found.state not in AT_REST
                    and TopicPartition(ref.topic, ref.partition) in found.partitions,
                    "nobody will end what producer {} has open on {}-{}: {}",
                    producer_id,
                    ref.topic,
                    ref.partition,
                    found,
                )


def _saved(world: World) -> dict[int, TransactionSaved] | None:
    """What coordinators know, by producer id; None if not all of them are at work."""
    topic = world.nodes.cluster.catalog.topics.get(TRANSACTIONS_TOPIC)
    nodes = list(running(world))
    if topic is None or len(nodes) < len(world.nodes.running):
        return None
    loaded = [
        found for node in nodes for found in node.transactions._loaded.values() if found.is_loaded
    ]
    if len(loaded) < topic.partition_count:
        return None
    return {saved.producer_id: saved for found in loaded for saved in found.machine._saved.values()}


def unfinished(world: World) -> str:
    """Why not every transaction is over; nothing if they are."""
    for node in world.nodes.running.values():
        for found in node.transactions._loaded.values():
            for saved in found.machine._saved.values():
                if saved.state not in AT_REST:
                    return f"{saved.transactional_id} is {saved.state.name}"
        for of_groups in node.groups._loaded.values():
            pending = of_groups.machine.offsets._pending
            if pending:
                return f"offsets of the producers {sorted(pending)} are pending"
        for shard in node.partitions.open_shards():
            partition, ref = shard.partition, shard.log.ref
            if partition.last_stable_offset != partition.high_watermark:
                return (
                    f"{ref.topic}-{ref.partition} is stable to {partition.last_stable_offset} "
                    f"of {partition.high_watermark}"
                )
    return ""


# What readers see.


class Views:
    """What everybody sees in the end, by partition."""

    def __init__(self, world: World, committed: list[TxnReader], all_of_it: list[TxnReader]):
        self.world = world
        self.committed = {reader.place: reader.seen for reader in committed}
        self.everything = {reader.place: reader.seen for reader in all_of_it}
        self._found: dict[str, list[tuple[Place, int]]] = {}
        for place, values in self.committed.items():
            for offset, value in values.items():
                self._found.setdefault(value, []).append((place, offset))

    def check(self, history: TxnHistory) -> None:
        self._check_values(history)
        for transaction in history.transactions:
            self._check_transaction(transaction)
        self._check_order(history)
        for value in history.plain:
            self.world.check(value in self._found, "{} was acknowledged, and is lost", value)

    def _check_values(self, history: TxnHistory) -> None:
        """Nothing of a transaction is there twice, and nothing that others do not see at all."""
        for value, places in self._found.items():
            is_once = len(places) == 1 or value not in history.values
            self.world.check(is_once, "{} is at {}", value, places)
        for place, values in self.committed.items():
            shown = self.everything[place]
            for offset, value in values.items():
                self.world.check(
                    shown.get(offset) == value, "{} is only for some at {}", value, offset
                )

    def _check_transaction(self, transaction: Transaction) -> None:
        """All of it is seen or nothing, and what was said of it is true."""
        wanted = [
            (value, place)
            for place, values in transaction.values.items()
            if place in self.committed
            for value in values
        ]
        seen = [value for value, _ in wanted if value in self._found]
        outcome = transaction.outcome()
        if outcome == ABORTED:
            self.world.check(
                not seen, "transaction {} was not committed: {}", transaction.number, seen
            )
        if outcome == COMMITTED or seen:
            for value, place in wanted:
                self._is_there(value, place, outcome)

    def _is_there(self, value: str, place: Place, outcome: str) -> None:
        found = self._found.get(value, [])
        self.world.check(
            [at for at, _ in found] == [place], "{} is {}, and is at {}", value, outcome, found
        )

    def _check_order(self, history: TxnHistory) -> None:
        """What one producer wrote to a partition stays in order."""
        for place, values in self.committed.items():
            last: dict[str, tuple[int, int]] = {}
            for offset in sorted(values):
                transaction = history.values.get(values[offset])
                if transaction is None:
                    continue
                key = (transaction.number, transaction.values[place].index(values[offset]))
                before = last.get(transaction.producer, (-1, -1))
                self.world.check(before < key, "{} comes after {}", key, before)
                last[transaction.producer] = key

    def check_reader(self, reader: TxnReader) -> None:
        """What somebody saw while things went wrong is what everybody sees up to there.

        So with all transactions whole in the end, none was torn at any time for a reader that had come so far.
        """
        views = self.committed if reader.isolation_level else self.everything
        final = {
            offset: value
            for offset, value in views[reader.place].items()
            if offset <= max(reader.seen, default=-1)
        }
        self.world.check(
            reader.seen == final, "{} saw {}, and there is {}", reader.name, reader.seen, final
        )

    def check_copies(self, transactional_id: str, offset: int, history: TxnHistory) -> None:
        """Up to its group's offset everything was copied, once; behind it nothing."""
        copied = sorted(
            int(value.rpartition(":")[2])
            for value in self._found
            if value in history.values
            and history.values[value].transactional_id == transactional_id
        )
        self.world.check(
            copied == list(range(offset)),
            "{} has copied {}, and its group is at {}",
            transactional_id,
            copied,
            offset,
        )
