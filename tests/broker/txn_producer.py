"""A transactional producer made of raw requests, which finds who is in charge and tries again, as clients do."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.broker import txn_requests as ask
from tests.broker.group_requests import GROUP_KEY, fetch_offsets, find_coordinator
from tests.broker.nodes import Nodes
from tests.broker.requests import WAIT_SECONDS, eventually
from tests.broker.txn_requests import Identity

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def insist(call: Callable[[], ErrorCode]) -> ErrorCode:
    """The first error that does not pass by itself."""
    errors: list[ErrorCode] = []

    def is_final() -> bool:
        errors.append(call())
        return errors[-1] not in PASSING

    eventually(is_final, WAIT_SECONDS)
    return errors[-1]


class Cluster:
    """Where to ask what."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def _coordinator(self, key: str, key_type: int) -> RawConnection:
        found: list[Any] = []

        def is_found() -> bool:
            (one,) = find_coordinator(self.nodes.any, key, key_type=key_type).coordinators
            found.append(one)
            return bool(one.error_code == ErrorCode.NONE)

        assert eventually(is_found), found[-1]
        return self.nodes.at(found[-1].node_id)

    def of_transaction(self, transactional_id: str) -> RawConnection:
        return self._coordinator(transactional_id, ask.TRANSACTION_KEY)

    def of_group(self, group: str) -> RawConnection:
        return self._coordinator(group, GROUP_KEY)

    def leader(self, topic: str, partition: int = 0) -> RawConnection:
        return self.nodes.leader(topic, partition)

    def state(self, transactional_id: str) -> str:
        return ask.state_of(self.of_transaction(transactional_id), transactional_id)

    def is_in(self, transactional_id: str, *states: str) -> bool:
        return eventually(lambda: self.state(transactional_id) in states)

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return ask.committed_values(self.leader(topic, partition), topic, partition)

    def is_healed(self, topic: str, partition: int = 0) -> bool:
        """Whether nothing stays open on the partition."""
        return eventually(lambda: ask.is_healed(self.leader(topic, partition), topic, partition))

    def offset(self, group: str, topic: str, partition: int = 0) -> int | ErrorCode:
        """The stable offset of a group, or why there is none."""
        answer = fetch_offsets(
            self.of_group(group), group, {topic: [partition]}, require_stable=True
        ).groups[0]
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code)
        found = answer.topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            return ErrorCode(found.error_code)
        offset: int = found.committed_offset
        return offset

    def offset_becomes(self, expected: int, group: str, topic: str, partition: int = 0) -> bool:
        return eventually(lambda: self.offset(group, topic, partition) == expected)


class Producer:
    """`version` is the transaction version that it goes by."""

    def __init__(
        self, cluster: Cluster, transactional_id: str | None = None, version: int = 2
    ) -> None:
        self.cluster = cluster
        self.id = transactional_id or f"tx-{uuid.uuid4().hex[:12]}"
        self.version = version
        self.who = ask.NOBODY
        self._sequences: dict[tuple[str, int], int] = {}

    def init(self, **details: Any) -> Producer:
        def call() -> ErrorCode:
            answer = ask.init(self.cluster.of_transaction(self.id), self.id, **details)
            self.who = Identity(answer.producer_id, answer.producer_epoch)
            return ErrorCode(answer.error_code)

        assert insist(call) is ErrorCode.NONE
        self._sequences.clear()
        return self

    def try_send(self, topic: str, *values: bytes, partition: int = 0) -> ErrorCode:
        if self.version == 1:
            coordinator = self.cluster.of_transaction(self.id)
            (error,) = ask.add_partitions(coordinator, self.id, self.who, {topic: [partition]})
            if error is not ErrorCode.NONE:
                return error
        sequence = self._sequences.get((topic, partition), 0)
        return ask.send(
            self.cluster.leader(topic, partition),
            self.id,
            self.who,
            topic,
            sequence,
            *values,
            partition=partition,
            version=ask.PRODUCE_V1 if self.version == 1 else ask.PRODUCE_V2,
        )

    def send(self, topic: str, *values: bytes, partition: int = 0) -> Producer:
        error = insist(lambda: self.try_send(topic, *values, partition=partition))
        assert error is ErrorCode.NONE, error
        key = (topic, partition)
        self._sequences[key] = self._sequences.get(key, 0) + max(len(values), 1)
        return self

    def try_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int], **member: Any
    ) -> ErrorCode:
        if self.version == 1:
            coordinator = self.cluster.of_transaction(self.id)
            error = ask.add_offsets(coordinator, self.id, self.who, group)
            if error is not ErrorCode.NONE:
                return error
        return ask.commit_offsets(
            self.cluster.of_group(group),
            self.id,
            self.who,
            group,
            offsets,
            version=ask.OFFSETS_V1 if self.version == 1 else ask.OFFSETS_V2,
            **member,
        )[0]

    def send_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> Producer:
        error = insist(lambda: self.try_offsets(group, offsets))
        assert error is ErrorCode.NONE, error
        return self

    def try_end(self, *, commits: bool) -> ErrorCode:
        answer = ask.end(
            self.cluster.of_transaction(self.id),
            self.id,
            self.who,
            commits=commits,
            version=ask.END_V1 if self.version == 1 else ask.END_V2,
        )
        if answer.error_code == ErrorCode.NONE and self.version == 2:
            self.who = Identity(answer.producer_id, answer.producer_epoch)
            self._sequences.clear()
        return ErrorCode(answer.error_code)

    def commit(self) -> Producer:
        error = insist(lambda: self.try_end(commits=True))
        assert error is ErrorCode.NONE, error
        return self

    def abort(self) -> Producer:
        error = insist(lambda: self.try_end(commits=False))
        assert error is ErrorCode.NONE, error
        return self
