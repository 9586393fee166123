"""What there is at the end of a run, asked of the broker itself, past the proxy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import TopicPartition
from tests.history.checker import UNFINISHED
from tests.history.confluent_client import consumer_of
from tests.history.digest import Place
from tests.history.events import READ_COMMITTED, READ_UNCOMMITTED, Recorder

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

LATEST = -1
READ_SECONDS = 30.0
T = TypeVar("T")


class Inspector:
    """Asks a broker that is well, and notes what it says."""

    def __init__(self, addresses: list[str], proxied: str, recorder: Recorder) -> None:
        self._addresses = addresses
        self._proxied = proxied
        self._recorder = recorder

    def create_topics(self, names: Iterable[str], partitions: int) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=-1,
                assignments=[],
                configs=[],
            )
            for name in names
        ]
        with RawConnection(self._addresses[0]) as connection:
            answer = connection.call(CreateTopicsRequest(topics=topics), CreateTopicsResponse, 7)
        errors = [ErrorCode(topic.error_code) for topic in answer.topics]
        assert set(errors) == {ErrorCode.NONE}, errors

    def _leader_address(self, place: Place) -> str:
        with RawConnection(self._addresses[0]) as connection:
            answer = connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
        leader: int
        (leader,) = [
            partition.leader_id
            for topic in answer.topics
            if topic.name == place.topic
            for partition in topic.partitions
            if partition.partition_index == place.partition
        ]
        return self._addresses[leader - 1]

    def end_offset(self, place: Place, isolation: str) -> int:
        asked = ListOffsetsPartition(partition_index=place.partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(isolation == READ_COMMITTED),
            topics=[ListOffsetsTopic(name=place.topic, partitions=[asked])],
        )

        def ask() -> int | None:
            with RawConnection(self._leader_address(place)) as connection:
                answer = connection.call(request, ListOffsetsResponse, 6)
            found = answer.topics[0].partitions[0]
            error = ErrorCode(found.error_code)
            assert error is ErrorCode.NONE or error.retriable, error.name
            offset: int = found.offset
            return None if error else offset

        return wait_for(f"the end of {place}", ask, READ_SECONDS)

    def transactions(self) -> dict[str, str]:
        """The state of every transactional id, of all coordinators."""
        states: dict[str, str] = {}
        for address in self._addresses:
            with RawConnection(address) as connection:
                request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
                answer = connection.call(request, ListTransactionsResponse, 0)
            if answer.error_code != ErrorCode.NONE:
                states[address] = ErrorCode(answer.error_code).name
            for found in answer.transaction_states:
                states[found.transactional_id] = found.transaction_state
        return states

    def unfinished(self) -> dict[str, str]:
        """The transactions that have not ended, and coordinators that cannot tell yet."""
        return {
            name: state
            for name, state in self.transactions().items()
            if state in UNFINISHED or state.isupper()
        }

    def committed(self, group: str, places: list[Place]) -> dict[Place, int]:
        """The offsets of a group; asked again until they are stable."""
        return wait_for(
            f"stable offsets of {group}", lambda: self._committed(group, places), READ_SECONDS
        )

    def _committed(self, group: str, places: list[Place]) -> dict[Place, int] | None:
        topics = [
            OffsetFetchRequestTopics(
                name=topic, partition_indexes=[n for t, n in places if t == topic]
            )
            for topic in dict.fromkeys(place.topic for place in places)
        ]
        asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
        with RawConnection(self._coordinator_address(group)) as connection:
            request = OffsetFetchRequest(groups=[asked], require_stable=True)
            answer = connection.call(request, OffsetFetchResponse, 8).groups[0]
        partitions = [(one.name, found) for one in answer.topics for found in one.partitions]
        if answer.error_code or any(found.error_code for _, found in partitions):
            return None
        return {
            Place(name, found.partition_index): found.committed_offset for name, found in partitions
        }

    def _coordinator_address(self, group: str) -> str:
        with RawConnection(self._addresses[0]) as connection:
            request = FindCoordinatorRequest(coordinator_keys=[group])
            found = connection.call(request, FindCoordinatorResponse, 4).coordinators[0]
        node_id: int = max(found.node_id, 1)
        return self._addresses[node_id - 1]

    def read(self, place: Place, isolation: str) -> list[tuple[int, str]]:
        """Everything from the beginning, by a real client."""
        end_offset = self.end_offset(place, isolation)
        consumer = consumer_of(
            self._proxied, "inspector", isolation, **{"enable.partition.eof": True}
        )
        records: list[tuple[int, str]] = []
        try:
            consumer.assign([TopicPartition(*place, 0)])
            deadline = time.monotonic() + READ_SECONDS
            while time.monotonic() < deadline:
                message: Any = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error() is None:
                    records.append((message.offset(), message.value().decode()))
                elif message.error().name() == "_PARTITION_EOF" and message.offset() >= end_offset:
                    return records
        finally:
            consumer.close()
        raise TimeoutError(f"{place} could not be read to its end in {READ_SECONDS} s")

    def note_all(self, places: list[Place], groups: list[str], sources: list[Place]) -> None:
        """Notes the end of a run."""
        note = self._recorder.note
        for place in places:
            note(
                "final_offsets",
                topic=place.topic,
                partition=place.partition,
                high_watermark=self.end_offset(place, READ_UNCOMMITTED),
                last_stable_offset=self.end_offset(place, READ_COMMITTED),
            )
            for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
                records = self.read(place, isolation)
                where = {"topic": place.topic, "partition": place.partition}
                note("final_records", isolation=isolation, **where, records=records)
        for group in groups:
            offsets = [[*place, offset] for place, offset in self.committed(group, sources).items()]
            note("final_committed", group=group, offsets=offsets)
        note("final_transactions", states=self.transactions())


def wait_for(what: str, look: Callable[[], T | None], seconds: float) -> T:
    """What `look` finds in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not in {seconds} s")
        time.sleep(0.1)
