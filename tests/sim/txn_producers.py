"""Transactional producers of both transaction versions; several at a time may believe to be the one of their id."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from tests.sim.peers import can_be_told_apart
from tests.sim.txn_clients import GROUP, TRANSACTION, TxnClient
from tests.sim.txn_history import Identity, Place, Transaction, TxnHistory
from tests.sim.world import World

from ottla.core.txn.events import VERSION_1, VERSION_2
from ottla.errors import ErrorCode
from ottla.records.batch import BatchFlag, build_batch
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

INPUT = "input"
MAX_TRIES = 12
IMPATIENT_SECONDS = 0.15
PRODUCE_SECONDS = 3.0
FIRST_INIT_WITH_EPOCHS = 3
# The versions that a client of transaction version 1 speaks, and one of version 2.
VERSIONS: dict[int, dict[type[Any], tuple[int, int]]] = {
    VERSION_1: {
        ProduceRequest: (9, 11),
        AddPartitionsToTxnRequest: (0, 3),
        AddOffsetsToTxnRequest: (0, 3),
        TxnOffsetCommitRequest: (0, 4),
        EndTxnRequest: (0, 4),
    },
    VERSION_2: {
        ProduceRequest: (12, 13),
        TxnOffsetCommitRequest: (5, 5),
        EndTxnRequest: (5, 5),
    },
}
AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class FencedError(Exception):
    """The producer is told that it is out."""


class OverError(Exception):
    """The producer cannot go on, although it may not be out: what it sent is on its way under an epoch that is good."""


class AbortError(Exception):
    """The transaction cannot go on."""


class Setup:
    """What all producers of a transactional id have in common; with a group, they copy its input."""

    def __init__(self, transactional_id: str, places: list[Place], group_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.places = places
        self.group_id = group_id


class TxnProducer(TxnClient):
    """One who goes by a transactional id."""

    def __init__(
        self, world: World, name: str, history: TxnHistory, setup: Setup, version: int
    ) -> None:
        super().__init__(world, name)
        self.history = history
        self.setup = setup
        self.version = version
        self.timeout_ms = self.rng.choice([3000, 6000, 15_000])
        self.is_stubborn = self.rng.random() < 0.3
        self.pauses = self.rng.choice([0.0, 0.05, 0.2])
        # Those who give up soon end transactions while writes are on their way.
        self.is_impatient = self.rng.random() < 0.5
        self.committed = 0
        self.is_over = False
        self._identity = Identity(-1, -1)
        self._sequences: dict[Place, int] = {}
        self._position = 0
        for request, (first, last) in VERSIONS[version].items():
            self._versions[request] = self.rng.randint(first, last)

    # Its life.

    async def run(self) -> None:
        with suppress(OverError):
            try:
                await self._work()
            except FencedError:
                if self.is_stubborn and self._identity.producer_id >= 0:
                    await self._haunt()
        self.is_over = True

    async def _work(self) -> None:
        await self._init(None)
        if self.setup.group_id is not None:
            await self._find_position()
        while True:
            await self._transact()
            await self.wait_between(0, self.rng.choice([0.01, 0.3]))

    async def _haunt(self) -> None:
        """Goes on although it was told that it is out."""
        for _ in range(3):
            await self.wait_between(0.1, 3)
            try:
                await self._transact()
            except FencedError:
                continue

    async def _maybe_sleep(self) -> None:
        """Stands still at times, which may be for longer than its transaction lasts."""
        if self.pauses and self.rng.random() < self.pauses:
            self.world.trace.note("{} falls asleep", self.name)
            longest = 2 * self.timeout_ms / 1000 if self.rng.random() < 0.2 else 1.0
            await self.wait_between(0.1, longest)

    async def _transact(self) -> None:
        transaction = self.history.begin(self.name, self.setup.transactional_id, self._identity)
        rng = self.rng
        places = rng.sample(self.setup.places, rng.randint(1, min(3, len(self.setup.places))))
        if self.version == VERSION_2:
            self._sequences.clear()
        copied = rng.randint(1, 3)
        transaction.group_id, transaction.offset = self.setup.group_id, self._position + copied
        wants_commit, is_sent = rng.random() < 0.7, False
        try:
            await self._send_all(transaction, places, copied)
            is_sent = True
            if self.setup.group_id is not None:
                await self._commit_offset(self._position + copied)
        except AbortError:
            wants_commit = False
        await self._maybe_sleep()
        await self._end(transaction, wants_commit)
        if wants_commit:
            self.committed += 1
            self._position += copied
        elif not is_sent and self.version == VERSION_1:
            await self._renew()

    async def _send_all(self, transaction: Transaction, places: list[Place], copied: int) -> None:
        """Writes some values to each partition, to several of them at the same time."""
        number = transaction.number
        values: dict[Place, list[str]] = {place: [] for place in places}
        if self.setup.group_id is None:
            for place in places:
                for count in range(self.rng.randint(1, 3)):
                    values[place].append(f"{number}:{place[1]}:{count}")
        else:
            for offset in range(self._position, self._position + copied):
                values[self.rng.choice(places)].append(f"{number}:copy:{offset}")
        for place in places:
            for value in values[place]:
                self.history.add_value(transaction, place, value)
        if self.version == VERSION_1:
            await self._register(places)
        await self._maybe_sleep()
        sent = [self._send(place, values[place]) for place in places if values[place]]
        results = await asyncio.gather(*sent, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    # Becoming a producer.

    async def _init(self, expected: Identity | None) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.setup.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
        )
        if expected is not None:
            request.producer_id, request.producer_epoch = expected
        while True:
            answer = await self._ask(request)
            if answer is None:
                continue
            if answer.error_code == ErrorCode.NONE:
                self._identity = Identity(answer.producer_id, answer.producer_epoch)
                self._sequences.clear()
                return
            await self._sort_out(answer.error_code)

    async def _renew(self) -> None:
        """After a failed write the sequence numbers begin anew, under another epoch (KIP-360)."""
        if self.version_of(InitProducerIdRequest) < FIRST_INIT_WITH_EPOCHS:
            raise OverError
        await self._init(self._identity)

    async def _ask(self, request: Any) -> Any | None:
        return await self.ask_coordinator(TRANSACTION, self.setup.transactional_id, request)

    async def _sort_out(self, error_code: int) -> None:
        """Comes back if it is worth asking again."""
        error = ErrorCode(error_code)
        if error in FENCED:
            raise FencedError
        if error in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
            raise AbortError
        self.world.check(error in AGAIN, "{} is told {}", self.name, error.name)
        if error is ErrorCode.CONCURRENT_TRANSACTIONS:
            await self._try_soon()
        else:
            await self.look_again(TRANSACTION, self.setup.transactional_id)

    async def _try_soon(self) -> None:
        """Markers are on their way, most probably, which takes but a moment."""
        await self.wait_between(0.02, 0.3)

    # Version 1: what belongs to a transaction is said before.

    async def _register(self, places: list[Place]) -> None:
        by_topic: dict[str, list[int]] = {}
        for topic, number in places:
            by_topic.setdefault(topic, []).append(number)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.setup.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in by_topic.items()
            ],
        )
        while True:
            answer = await self._ask(request)
            if answer is None:
                continue
            errors = [
                ErrorCode(one.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ]
            if all(error is ErrorCode.NONE for error in errors):
                return
            if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors:
                raise AbortError  # it was deleted
            await self._sort_out(max(errors))

    async def _register_offsets(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.setup.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=group_id,
        )
        while True:
            answer = await self._ask(request)
            if answer is None:
                continue
            if answer.error_code == ErrorCode.NONE:
                return
            await self._sort_out(answer.error_code)

    # Writing.

    async def _send(self, place: Place, values: list[str]) -> None:
        """Sends values to a partition, in one batch or in several."""
        if self.rng.random() < 0.3:
            for value in values:
                await self._send_batch(place, [value])
        else:
            await self._send_batch(place, values)

    async def _send_batch(self, place: Place, values: list[str]) -> None:
        sequence = self._sequences.get(place, 0)
        # Whatever becomes of it, its numbers are not used for anything else.
        self._sequences[place] = sequence + len(values)
        batch = build_batch(
            [self.record(delta, value) for delta, value in enumerate(values)],
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=sequence,
            flags=BatchFlag.TRANSACTIONAL,
        )
        for _ in range(MAX_TRIES):
            produced = self.produce(place, batch, self.setup.transactional_id, PRODUCE_SECONDS)
            sent = asyncio.ensure_future(produced)
            try:
                await asyncio.wait([sent], timeout=IMPATIENT_SECONDS if self.is_impatient else None)
            except asyncio.CancelledError:
                # A producer that died must not open a transaction afterwards.
                sent.cancel()
                raise
            if not sent.done():
                break
            error = sent.result()
            if error is ErrorCode.NONE:
                return
            if not (error is None or error.retriable):
                break
            await self._try_soon()
        raise AbortError

    # Offsets.

    async def _commit_offset(self, offset: int) -> None:
        group_id = self.setup.group_id
        assert group_id is not None
        if self.version == VERSION_1:
            await self._register_offsets(group_id)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=self.name
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.setup.transactional_id,
            group_id=group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=INPUT, partitions=[partition])],
        )
        first = len(self.network.exchanges)
        for _ in range(MAX_TRIES):
            answer = await self.ask_coordinator(GROUP, group_id, request)
            await self._until_over(request, first)
            if answer is None:
                continue
            error = ErrorCode(answer.topics[0].partitions[0].error_code)
            if error is ErrorCode.NONE:
                return
            if not error.retriable:
                break
            await self.look_again(GROUP, group_id)
        raise AbortError

    async def _find_position(self) -> None:
        """Goes on where the last committed transaction ended."""
        self._position = await fetch_offset(self, str(self.setup.group_id))

    # The end.

    async def _end(self, transaction: Transaction, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.setup.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commits,
        )
        if commits:
            self.history.commits_with(transaction, request)
        first = len(self.network.exchanges)
        while True:
            answer = await self._ask(request)
            await self._until_over(request, first)
            if answer is None:
                continue
            if answer.error_code == ErrorCode.NONE:
                if self.version == VERSION_2:
                    self._identity = Identity(answer.producer_id, answer.producer_epoch)
                return
            try:
                await self._sort_out(answer.error_code)
            except AbortError as error:
                # Nothing had begun, or a repetition of a request has ended it otherwise: no client goes on after that.
                raise OverError from error

    async def _until_over(self, request: Any, first: int) -> None:
        """Waits until nothing of a request is on its way, if brokers could not tell it from a later one."""
        if not can_be_told_apart(request, self.version_of(type(request))):
            await self.network.until_over(request, first)


async def fetch_offset(client: TxnClient, group_id: str) -> int:
    """What a group has committed for its input, when nothing of it is in an open transaction; 0 is nothing."""
    client.first_versions[OffsetFetchRequest] = 7
    topic_id = client.world.nodes.cluster.catalog.topics[INPUT].topic_id
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=[OffsetFetchRequestTopic(name=INPUT, partition_indexes=[0])],
        require_stable=True,
    )
    if client.version_of(OffsetFetchRequest) >= 8:
        wanted = OffsetFetchRequestTopics(name=INPUT, topic_id=topic_id, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id=group_id, topics=[wanted])
        request = OffsetFetchRequest(groups=[group], require_stable=True)
    while True:
        answer = await client.ask_coordinator(GROUP, group_id, request)
        if answer is None:
            continue
        found = answer.groups[0] if answer.groups else answer
        if found.error_code == ErrorCode.NONE:
            partition = found.topics[0].partitions[0]
            if partition.error_code == ErrorCode.NONE:
                return max(0, int(partition.committed_offset))
        await client.look_again(GROUP, group_id)


class GroupObserver(TxnClient):
    """Looks again and again where a group is."""

    def __init__(self, world: World, name: str, group_id: str) -> None:
        super().__init__(world, name)
        self.group_id = group_id

    async def run(self) -> None:
        while True:
            await fetch_offset(self, self.group_id)
            await self.wait_between(0.1, 2)
