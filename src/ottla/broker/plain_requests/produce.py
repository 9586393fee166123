"""Produce requests that one receive brought: decided about in their order, written at once, answered at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final
from uuid import UUID

from ottla import access
from ottla.access import Operation
from ottla.broker.coordination.verification import confirms_at_once
from ottla.broker.node import Node
from ottla.broker.partitions.shard import Shard
from ottla.broker.partitions.staged_appends import Decided, StagedAppends
from ottla.broker.requests.plain_answers import PlainAnswers, PlainReply
from ottla.broker.requests.produce_replies import Unsettled, acknowledge, refuse, reply_to
from ottla.broker.security.caller import Caller
from ottla.core.outcomes import Refused
from ottla.core.produce import (
    Confirmed,
    check_topic,
    decide_verification,
    needed_replicas,
    transaction_version,
)
from ottla.core.turn import ProducerIdentity
from ottla.errors import ErrorCode
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.plain_produce import (
    PlainBatch,
    PlainRequest,
    read_plain_requests,
    timeouts_of,
    write_plain_responses,
)

# After this many batches that needed a closer look, the loop looks at the clock.
MAX_CLOSER_LOOKS: Final = 4

_Target = tuple[str | UUID, int, int]  # topic, partition, acks


def answer_plain(
    node: Node, caller: Caller, received: memoryview, start: int, end: int
) -> PlainAnswers | None:
    """Answers the plain requests from `start` on; None if there is none, or the first has to be looked at closely."""
    requests = read_plain_requests(received, start, end)
    if not requests:
        return None
    received_together = _OneReceive(node, caller)
    count = received_together.stage(requests)
    if not count:
        return None
    del requests[count:]
    return received_together.finish(requests, received, start)


class _OneReceive:
    """The requests of one receive."""

    __slots__ = (
        "_append_times",
        "_authorizer",
        "_base_offsets",
        "_caller",
        "_closer_looks",
        "_node",
        "_now_ms",
        "_of_shards",
        "_of_targets",
        "_places",
    )

    def __init__(self, node: Node, caller: Caller) -> None:
        self._node = node
        self._authorizer = node.authorizer
        self._caller = caller
        self._now_ms = node.cluster.clock.now_ms()
        self._of_targets: dict[_Target, StagedAppends | None] = {}
        self._of_shards: dict[Shard, StagedAppends] = {}
        self._closer_looks = 0
        # Of every staged batch, in the order of the requests.
        self._places: list[StagedAppends] = []
        self._base_offsets: list[int] = []
        self._append_times: list[int] = []

    # Staging.

    def stage(self, requests: Sequence[PlainRequest]) -> int:
        """Stages the batches of requests up to one that takes a closer look; returns the number of requests."""
        for number, request in enumerate(requests):
            if not self._stage(request):
                return number
            if self._closer_looks >= MAX_CLOSER_LOOKS:
                return number + 1
        return len(requests)

    def _stage(self, request: PlainRequest) -> bool:
        _, version, _, acks, transactional_id, batches = request
        decided = []
        unconfirmed = []
        for _, topic, partition, records in batches:
            target = (topic, partition, acks)
            try:
                staged = self._of_targets[target]
            except KeyError:
                staged = self._of_targets[target] = self._find(target)
            if staged is None:
                return False
            decision = staged.decide(records, transactional_id, version)
            if decision is None:
                return False
            decided.append((staged, decision))
            if decision.needs_confirmation:
                unconfirmed.append((staged, decision))
        # A second batch of a partition would have to be decided about after the first.
        if len(decided) > 1 and len({staged.shard for staged, _ in decided}) < len(decided):
            return False
        if not self._authorizer.is_open and not self._note_allowed(batches, decided):
            return False
        if unconfirmed and not self._confirm(transactional_id, version, unconfirmed):
            return False
        for staged, decision in decided:
            self._places.append(staged)
            self._base_offsets.append(staged.add(decision))
            self._append_times.append(decision.append_time_ms)
            if not decision.is_plain:
                self._closer_looks += 1
        return True

    def _confirm(
        self,
        transactional_id: str | None,
        version: int,
        unconfirmed: Sequence[tuple[StagedAppends, Decided]],
    ) -> bool:
        """Asks a coordinator that can answer at once whether batches belong to the transaction; False if not so.

        The handler asks again then, which changes nothing. Here, what is asked and what is staged is one step: only
        the coordinators' own partition is written to in between.
        """
        node = self._node
        decision = decide_verification(
            [_producer_of(decided) for _, decided in unconfirmed],
            version,
            node.options.config.transaction_partition_verification_enable,
        )
        if isinstance(decision, Confirmed):
            return True
        if isinstance(decision, Refused):
            return False
        assert transactional_id is not None
        return confirms_at_once(
            node,
            transactional_id,
            decision.producer,
            [staged.partition for staged, _ in unconfirmed],
            transaction_version(version),
        )

    def _note_allowed(
        self, batches: Sequence[PlainBatch], decided: Sequence[tuple[StagedAppends, Decided]]
    ) -> bool:
        """Counts and audits what `_find` found to be allowed; False if a transactional id has to be looked at."""
        if any(decision.header.is_transactional for _, decision in decided):
            return False
        number = -1
        for batch, (staged, _) in zip(batches, decided, strict=True):
            if batch[0] != number:
                number = batch[0]
                self._may_write(staged.shard.log.ref.topic, is_noted=True)
        return True

    def _may_write(self, topic: str, *, is_noted: bool) -> bool:
        return self._authorizer.allows(
            self._caller, Operation.WRITE, access.topic(topic), logs_denied=is_noted
        )

    def _find(self, target: _Target) -> StagedAppends | None:
        """Where batches of a partition are staged; None if a rule refuses them, or the partition is not open."""
        topic, partition, acks = target
        if isinstance(topic, UUID):
            known = self._node.cluster.catalog.topics_by_id.get(topic)
            name = None if known is None else known.name
        else:
            name = topic
        if name is None or check_topic(name, acks) is not None:
            return None
        # The handler notes what is denied.
        if not self._authorizer.is_open and not self._may_write(name, is_noted=False):
            return None
        shard = self._node.partitions.open_shard(name, partition)
        if shard is None or needed_replicas(acks, shard.config.min_insync_replicas) > 1:
            return None
        staged = self._of_shards.get(shard)
        if staged is None:
            staged = self._of_shards[shard] = StagedAppends(shard, self._now_ms)
        return staged

    # Writing and answering.

    def finish(
        self, requests: list[PlainRequest], received: memoryview, start: int
    ) -> PlainAnswers:
        """Writes what is staged, and answers."""
        is_settled = True
        for staged in self._of_shards.values():
            if staged.is_empty:
                continue
            outcome = staged.write()
            if isinstance(outcome, Refused) or outcome.settled is not None:
                is_settled = False
        end, count = requests[-1][0], len(requests)
        if not is_settled:
            timeouts_ms = timeouts_of(received, start, requests)
            return PlainAnswers(end, count, [], self._replies(requests, timeouts_ms))
        start_offsets = [staged.shard.partition.start_offset for staged in self._places]
        data = write_plain_responses(
            requests, self._base_offsets, self._append_times, start_offsets
        )
        return PlainAnswers(end, count, [data] if data else [])

    def _replies(
        self, requests: Sequence[PlainRequest], timeouts_ms: Sequence[int]
    ) -> Iterator[PlainReply]:
        """The replies one by one: some batches were not appended, or are not durable yet."""
        first = 0
        for request, timeout_ms in zip(requests, timeouts_ms, strict=True):
            _, version, correlation_id, acks, _, batches = request
            unsettled: Unsettled = []
            response = self._response(batches, first, version, unsettled)
            first += len(batches)
            reply = reply_to(self._node, self._caller, acks, timeout_ms, response, unsettled)
            yield PlainReply(reply, version, correlation_id)

    def _response(
        self, batches: Sequence[PlainBatch], first: int, version: int, unsettled: Unsettled
    ) -> ProduceResponse:
        topics = []
        numbered = enumerate(batches, first)
        for _, group in groupby(numbered, key=lambda each: each[1][0]):
            about = TopicProduceResponse(partition_responses=[])
            for place, (_, topic, partition, _) in group:
                if isinstance(topic, UUID):
                    about.topic_id = topic
                else:
                    about.name = topic
                about.partition_responses.append(self._outcome(place, partition, unsettled))
            topics.append(about)
        return ProduceResponse(responses=topics)

    def _outcome(
        self, place: int, partition: int, unsettled: Unsettled
    ) -> PartitionProduceResponse:
        response = PartitionProduceResponse(
            index=partition, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, base_offset=-1
        )
        staged = self._places[place]
        outcome = staged.outcome
        assert outcome is not None
        if isinstance(outcome, Refused):
            refuse(response, outcome)
        else:
            own = outcome._replace(
                base_offset=self._base_offsets[place], append_time_ms=self._append_times[place]
            )
            acknowledge(response, staged.shard, own, unsettled)
        return response


def _producer_of(decided: Decided) -> ProducerIdentity:
    producer = decided.producer
    assert producer is not None
    return ProducerIdentity(producer.producer_id, producer.producer_epoch)
