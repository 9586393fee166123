"""Which node a request goes to: any node, the controller, a coordinator, a leader, or a node that the caller names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic

from ottla.client.aio.admin.answers import (
    ANYWHERE,
    AT_CONTROLLER,
    AT_COORDINATOR,
    AT_LEADER,
    Answers,
    ErrorMeanings,
    K,
)
from ottla.client.aio.network.coordinator_cache import KEY_GROUP, KEY_TRANSACTION
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from ottla.client.aio.admin.requests import AdminRequests

# Not every broker knows a new topic at once, so an unknown one is looked up again. Kafka's Admin does so until the
# timeout; with a mistyped name the caller should not have to wait a minute.
UNKNOWN_TOPIC_LOOKUPS = 4

# Beyond that the leaders that were found first are forgotten.
MAX_CACHED_LEADERS = 100_000


class AnyNode(Generic[K]):
    """The least busy node."""

    meanings: ErrorMeanings = ANYWHERE

    def __init__(self, what: str, plural: str) -> None:
        self.what = what
        self.plural = plural

    async def find(
        self, keys: Sequence[K], requests: AdminRequests, timeout_ms: float
    ) -> Answers[K, int]:
        """One node for all."""
        del timeout_ms
        answers: Answers[K, int] = Answers("Metadata", self.what)
        node = await requests.network.any_node()
        answers.results = dict.fromkeys(keys, node)
        return answers


class Controller(Generic[K]):
    """The controller; if it is not known, any broker, which forwards the request."""

    meanings: ErrorMeanings = AT_CONTROLLER

    def __init__(self, what: str, plural: str) -> None:
        self.what = what
        self.plural = plural
        self._is_stale = False

    async def find(
        self, keys: Sequence[K], requests: AdminRequests, timeout_ms: float
    ) -> Answers[K, int]:
        """The controller; its metadata is refreshed for a retry."""
        answers: Answers[K, int] = Answers("Metadata", self.what)
        if self._is_stale:
            requests.network.request_update()
            await requests.network.updated(timeout_ms)
        await requests.know_nodes((), timeout_ms)
        self._is_stale = True
        answers.results = dict.fromkeys(keys, await requests.network.controller())
        return answers


class GivenNodes:
    """The keys are node ids."""

    what = "node"
    plural = "nodes"
    meanings: ErrorMeanings = AT_COORDINATOR

    async def find(
        self, keys: Sequence[int], requests: AdminRequests, timeout_ms: float
    ) -> Answers[int, int]:
        """The nodes themselves, if they are in the cluster."""
        answers: Answers[int, int] = Answers("Metadata", self.what)
        await requests.know_nodes(keys, timeout_ms)
        for node in keys:
            if node in requests.network.cluster.nodes:
                answers.succeed(node, node)
            else:
                reason = f"The cluster has no broker {node} at the moment."
                answers.fail(node, ErrorCode.BROKER_NOT_AVAILABLE, reason)
        return answers


class GivenNode(Generic[K]):
    """One node that the caller names; if it is not the leader or coordinator, the call fails."""

    meanings: ErrorMeanings = ANYWHERE

    def __init__(self, what: str, plural: str, node_id: int) -> None:
        self.what = what
        self.plural = plural
        self._node_id = node_id

    async def find(
        self, keys: Sequence[K], requests: AdminRequests, timeout_ms: float
    ) -> Answers[K, int]:
        """That node, if it is in the cluster."""
        answers: Answers[K, int] = Answers("Metadata", self.what)
        found = await GivenNodes().find([self._node_id], requests, timeout_ms)
        for error in found.errors.values():
            answers.errors = dict.fromkeys(keys, error)
        for node in found.results:
            answers.results = dict.fromkeys(keys, node)
        return answers


class Coordinators:
    """The coordinators of groups or transactional ids."""

    meanings: ErrorMeanings = AT_COORDINATOR

    def __init__(self, what: str, plural: str, key_type: int) -> None:
        self.what = what
        self.plural = plural
        self._key_type = key_type

    async def find(
        self, keys: Sequence[str], requests: AdminRequests, timeout_ms: float
    ) -> Answers[str, int]:
        """One FindCoordinator for all keys if the broker supports that (KIP-699), else one for each."""
        node = await requests.network.any_node()
        answers: Answers[str, int] = Answers(
            "FindCoordinator", self.what, requests.network.name_of(node), AT_COORDINATOR
        )
        connection = await requests.network.connection(node)
        version = connection.version_of(FindCoordinatorRequest)
        if version >= 4:
            request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=list(keys))
            read_coordinators(
                await requests.send(connection, request, version, timeout_ms), answers
            )
        else:
            for key in keys:
                request = FindCoordinatorRequest(key=key, key_type=self._key_type)
                response = await requests.send(connection, request, version, timeout_ms)
                read_coordinator(response, key, answers)
        await check_addresses(answers, requests, timeout_ms, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return answers


def group_coordinators() -> Coordinators:
    """The coordinators of groups."""
    return Coordinators("group", "groups", KEY_GROUP)


def transaction_coordinators() -> Coordinators:
    """The coordinators of transactional ids."""
    return Coordinators("transactional_id", "transactional ids", KEY_TRANSACTION)


def read_coordinators(response: FindCoordinatorResponse, answers: Answers[str, int]) -> None:
    """The coordinators of several keys."""
    for found in response.coordinators:
        answers.complete(found.key, found.node_id, found.error_code, found.error_message)


def read_coordinator(
    response: FindCoordinatorResponse, key: str, answers: Answers[str, int]
) -> None:
    """The coordinator of one key."""
    answers.complete(key, response.node_id, response.error_code, response.error_message)


class LeaderCache:
    """The leaders that were found last; a leader that has moved refuses, and is then looked up again."""

    def __init__(self) -> None:
        self._leaders: dict[TopicPartition, int] = {}

    def get(self, key: TopicPartition) -> int | None:
        """The node id of the leader, as far as it is known."""
        return self._leaders.get(key)

    def replace(self, keys: Iterable[TopicPartition], found: Mapping[TopicPartition, int]) -> None:
        """Remember what a lookup of these keys found."""
        for key in keys:
            self._leaders.pop(key, None)
        self._leaders.update(found)
        while len(self._leaders) > MAX_CACHED_LEADERS:
            del self._leaders[next(iter(self._leaders))]


class Leaders:
    """The leaders of partitions."""

    what = "partition"
    plural = "partitions"
    meanings: ErrorMeanings = AT_LEADER

    def __init__(self) -> None:
        self._lookups = 0
        self._found: set[TopicPartition] = set()

    async def find(
        self, keys: Sequence[TopicPartition], requests: AdminRequests, timeout_ms: float
    ) -> Answers[TopicPartition, int]:
        """The leaders that are known; for others, and for those that were wrong, by a new Metadata request."""
        answers: Answers[TopicPartition, int] = Answers("Metadata", self.what)
        for key in keys:
            leader = None if key in self._found else requests.leaders.get(key)
            if leader is not None and leader in requests.network.cluster.nodes:
                answers.succeed(key, leader)
        self._found.update(answers.results)
        unknown = [key for key in keys if key not in answers.results]
        if unknown:
            answers.add_all(await self._look_up(unknown, requests, timeout_ms))
        return answers

    async def _look_up(
        self, keys: Sequence[TopicPartition], requests: AdminRequests, timeout_ms: float
    ) -> Answers[TopicPartition, int]:
        self._lookups += 1
        meanings = dict(AT_LEADER)
        if self._lookups >= UNKNOWN_TOPIC_LOOKUPS:
            del meanings[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        node = await requests.network.any_node()
        answers: Answers[TopicPartition, int] = Answers(
            "Metadata", self.what, requests.network.name_of(node), meanings
        )
        request = MetadataRequest(
            topics=[
                MetadataRequestTopic(name=topic) for topic in dict.fromkeys(t for t, _ in keys)
            ],
            allow_auto_topic_creation=False,
        )
        response = await requests.call_with(node, request, timeout_ms)
        read_leaders(response, keys, answers)
        await check_addresses(answers, requests, timeout_ms, ErrorCode.LEADER_NOT_AVAILABLE)
        requests.leaders.replace(keys, answers.results)
        self._found.update(answers.results)
        return answers


def read_leaders(
    response: MetadataResponse,
    keys: Iterable[TopicPartition],
    answers: Answers[TopicPartition, int],
) -> None:
    """The leaders of these partitions."""
    topics = {topic.name: topic for topic in response.topics}
    for key in keys:
        topic = topics.get(key.topic)
        if topic is None or topic.error_code:
            code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.fail(key, code)
            continue
        partition = next((p for p in topic.partitions if p.partition_index == key.partition), None)
        if partition is None:
            reason = f"Topic {key.topic} has {len(topic.partitions)} partitions."
            answers.fail(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        elif partition.leader_id >= 0:
            # An error beside a leader concerns other replicas.
            answers.succeed(key, partition.leader_id)
        else:
            answers.fail(key, partition.error_code or ErrorCode.LEADER_NOT_AVAILABLE)


async def check_addresses(
    answers: Answers[K, int], requests: AdminRequests, timeout_ms: float, code: ErrorCode
) -> None:
    """Get the addresses of the nodes that were found; a node without an address is an error to retry."""
    await requests.know_nodes(answers.results.values(), timeout_ms)
    for key, node in list(answers.results.items()):
        if node not in requests.network.cluster.nodes:
            del answers.results[key]
            answers.fail(key, code, f"It is broker {node}, whose address is not known yet.")
