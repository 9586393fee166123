"""The client's side of a fetch session with one broker: requests have only what changed (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from ottla.errors import ErrorCode
from ottla.model import NO_TOPIC_ID, TopicPartition
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1

FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


class FetchSettings(NamedTuple):
    """The fields that all fetch requests of a consumer share."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    isolation_level: int
    rack_id: str


class WantedPartition(NamedTuple):
    """Where to fetch a partition from, and its leader epoch and topic id by our metadata."""

    fetch_offset: int
    leader_epoch: int
    topic_id: UUID


class SessionFetch(NamedTuple):
    """One request of a session: what it sends, and all partitions of the session after it."""

    session_id: int
    epoch: int
    to_send: Mapping[TopicPartition, WantedPartition]
    to_forget: tuple[tuple[TopicPartition, UUID], ...]
    # Their topic was deleted and created again: a request with topic ids has to forget the old id.
    to_replace: tuple[tuple[TopicPartition, UUID], ...]
    partitions: Mapping[TopicPartition, WantedPartition]
    names: Mapping[UUID, str]
    can_use_topic_ids: bool

    @property
    def at_most(self) -> int | None:
        """The newest version that this request may have; None for any."""
        return None if self.can_use_topic_ids else FIRST_VERSION_WITH_TOPIC_IDS - 1

    def request(self, settings: FetchSettings, version: int) -> FetchRequest:
        """The Fetch request at a version."""
        forgotten = self.to_forget
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            forgotten += self.to_replace
        return FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=settings.isolation_level,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=_topics(self.to_send, settings.partition_max_bytes),
            forgotten_topics_data=_forgotten(forgotten),
            rack_id=settings.rack_id,
        )


class FetchSession:
    """The partitions of a session, and the epoch of its next request.

    Before the first response, and after errors, the epoch is 0: the request has all partitions, and asks for a new
    session, which replaces `session_id` if there is one.
    """

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, WantedPartition] = {}

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """The partitions of the session."""
        return self._partitions.keys()

    def next_fetch(self, wanted: Mapping[TopicPartition, WantedPartition]) -> SessionFetch:
        """The request that fetches exactly these partitions, in this order."""
        names = {
            want.topic_id: partition.topic
            for partition, want in wanted.items()
            if want.topic_id != NO_TOPIC_ID
        }
        can_use_topic_ids = all(want.topic_id != NO_TOPIC_ID for want in wanted.values())
        if self.epoch == INITIAL_EPOCH:
            self._partitions = dict(wanted)
            return self._fetch(self._partitions, (), (), names, can_use_topic_ids)
        before = self._partitions
        to_send, to_replace = {}, []
        for partition, want in wanted.items():
            old = before.get(partition)
            if old != want:
                to_send[partition] = want
                if old is not None and _is_other_topic(old, want):
                    to_replace.append((partition, old.topic_id))
        to_forget = [(p, old.topic_id) for p, old in before.items() if p not in wanted]
        if any(topic_id == NO_TOPIC_ID for _, topic_id in to_forget):
            can_use_topic_ids = False
        # Brokers keep the order of the session, and move partitions that are sent again to its end.
        self._partitions = {p: wanted[p] for p in before if p in wanted and p not in to_send}
        self._partitions.update(to_send)
        return self._fetch(to_send, tuple(to_forget), tuple(to_replace), names, can_use_topic_ids)

    def close(self) -> SessionFetch | None:
        """The request that ends the session; None if there is none."""
        session_id, self.session_id = self.session_id, NO_SESSION
        self._partitions = {}
        self.epoch = INITIAL_EPOCH
        if session_id == NO_SESSION:
            return None
        return SessionFetch(session_id, FINAL_EPOCH, {}, (), (), {}, {}, True)

    def handle(
        self, fetch: SessionFetch, response: FetchResponse, version: int
    ) -> dict[TopicPartition, PartitionData] | None:
        """Read a response; None if it cannot be used: the next request starts a new session."""
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._start_anew()
            else:
                self.failed()
            return None
        found = _by_partition(fetch, response, version)
        is_full = fetch.epoch == INITIAL_EPOCH
        if is_full and not found and response.throttle_time_ms > 0:
            # A broker that throttles us may leave a full response empty (KIP-219).
            self._start_anew()
            return None
        if found is None or (is_full and found.keys() != fetch.partitions.keys()):
            # The response does not match the request.
            if is_full:
                self._start_anew()
            else:
                self.failed()
            return None
        if response.session_id == NO_SESSION:
            self._start_anew()
        else:
            self.session_id = response.session_id
            self.epoch = 1 if fetch.epoch == _LAST_EPOCH else fetch.epoch + 1
        return found

    def failed(self) -> None:
        """There is no response: the next request ends this session and starts another."""
        self.epoch = INITIAL_EPOCH

    def _start_anew(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH

    def _fetch(
        self,
        to_send: Mapping[TopicPartition, WantedPartition],
        to_forget: tuple[tuple[TopicPartition, UUID], ...],
        to_replace: tuple[tuple[TopicPartition, UUID], ...],
        names: Mapping[UUID, str],
        can_use_topic_ids: bool,
    ) -> SessionFetch:
        return SessionFetch(
            self.session_id,
            self.epoch,
            to_send,
            to_forget,
            to_replace,
            self._partitions,
            names,
            can_use_topic_ids,
        )


def _is_other_topic(old: WantedPartition, new: WantedPartition) -> bool:
    return old.topic_id != new.topic_id and NO_TOPIC_ID not in (old.topic_id, new.topic_id)


def _by_partition(
    fetch: SessionFetch, response: FetchResponse, version: int
) -> dict[TopicPartition, PartitionData] | None:
    """The response by partition; None if it has partitions that are not in the session."""
    found = {}
    for topic in response.responses:
        name: str | None = topic.topic
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name = fetch.names.get(topic.topic_id)
        for data in topic.partitions:
            partition = TopicPartition(name or "", data.partition_index)
            if name is None or partition not in fetch.partitions:
                return None
            found[partition] = data
    return found


def _topics(
    wanted: Mapping[TopicPartition, WantedPartition], partition_max_bytes: int
) -> list[FetchTopic]:
    """Partitions by topic, in the same order, in which brokers fill the response."""
    topics: list[FetchTopic] = []
    last: tuple[str, UUID] | None = None
    for (topic, partition), want in wanted.items():
        if last != (topic, want.topic_id):
            last = (topic, want.topic_id)
            topics.append(FetchTopic(topic=topic, topic_id=want.topic_id, partitions=[]))
        topics[-1].partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.fetch_offset,
                partition_max_bytes=partition_max_bytes,
            )
        )
    return topics


def _forgotten(partitions: Iterable[tuple[TopicPartition, UUID]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for partition, topic_id in partitions:
        topics.setdefault((partition.topic, topic_id), []).append(partition.partition)
    return [
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=numbers)
        for (topic, topic_id), numbers in topics.items()
    ]
