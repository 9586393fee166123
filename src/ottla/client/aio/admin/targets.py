"""Who is asked: any node, the controller, coordinators, leaders, or nodes that the caller names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic

from ottla.client.aio.admin.results import (
    ANYWHERE,
    AT_CONTROLLER,
    AT_COORDINATOR,
    AT_LEADER,
    Answers,
    K,
    Verdicts,
)
from ottla.client.aio.network.coordinator_cache import KEY_GROUP, KEY_TRANSACTION
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from ottla.client.aio.admin.requests import Calls

# A topic that was just created is not known to every broker at once. Kafka's Admin asks until the
# time is over; who has mistyped a name should not wait a minute to hear it.
UNKNOWN_TOPIC_LOOKUPS = 4


class AnyNode(Generic[K]):
    """The node with the least to do."""

    verdicts: Verdicts = ANYWHERE

    def __init__(self, what: str, plural: str) -> None:
        self.what = what
        self.plural = plural

    async def find(self, keys: Sequence[K], calls: Calls, timeout_ms: float) -> Answers[K, int]:
        """One node for all."""
        del timeout_ms
        answers: Answers[K, int] = Answers("Metadata", self.what)
        node = await calls.network.any_node()
        answers.results = dict.fromkeys(keys, node)
        return answers


class Controller(Generic[K]):
    """The controller, or where it is not known a broker that passes the request on."""

    verdicts: Verdicts = AT_CONTROLLER

    def __init__(self, what: str, plural: str) -> None:
        self.what = what
        self.plural = plural
        self._is_stale = False

    async def find(self, keys: Sequence[K], calls: Calls, timeout_ms: float) -> Answers[K, int]:
        """The controller; looked up again if it is no longer the one."""
        answers: Answers[K, int] = Answers("Metadata", self.what)
        if self._is_stale:
            calls.network.request_update()
            await calls.network.updated(timeout_ms)
        await calls.know_nodes((), timeout_ms)
        self._is_stale = True
        answers.results = dict.fromkeys(keys, await calls.network.controller())
        return answers


class GivenNodes:
    """The keys are node ids."""

    what = "node"
    plural = "nodes"
    verdicts: Verdicts = AT_COORDINATOR

    async def find(self, keys: Sequence[int], calls: Calls, timeout_ms: float) -> Answers[int, int]:
        """The nodes themselves, if the cluster has them."""
        answers: Answers[int, int] = Answers("Metadata", self.what)
        await calls.know_nodes(keys, timeout_ms)
        for node in keys:
            if node in calls.network.cluster.nodes:
                answers.give(node, node)
            else:
                reason = f"The cluster has no broker {node} at the moment."
                answers.refuse(node, ErrorCode.BROKER_NOT_AVAILABLE, reason)
        return answers


class GivenNode(Generic[K]):
    """All at one node that the caller names; that it does not lead or coordinate is the answer then."""

    verdicts: Verdicts = ANYWHERE

    def __init__(self, what: str, plural: str, node_id: int) -> None:
        self.what = what
        self.plural = plural
        self._node_id = node_id

    async def find(self, keys: Sequence[K], calls: Calls, timeout_ms: float) -> Answers[K, int]:
        """That node, if the cluster has it."""
        answers: Answers[K, int] = Answers("Metadata", self.what)
        found = await GivenNodes().find([self._node_id], calls, timeout_ms)
        for error in found.errors.values():
            answers.errors = dict.fromkeys(keys, error)
        for node in found.results:
            answers.results = dict.fromkeys(keys, node)
        return answers


class Coordinators:
    """The coordinators of groups or transactional ids."""

    verdicts: Verdicts = AT_COORDINATOR

    def __init__(self, what: str, plural: str, key_type: int) -> None:
        self.what = what
        self.plural = plural
        self._key_type = key_type

    async def find(self, keys: Sequence[str], calls: Calls, timeout_ms: float) -> Answers[str, int]:
        """One FindCoordinator for all keys where the broker can (KIP-699), else one for each."""
        node = await calls.network.any_node()
        answers: Answers[str, int] = Answers(
            "FindCoordinator", self.what, calls.network.name_of(node), AT_COORDINATOR
        )
        connection = await calls.network.connection(node)
        version = connection.version_of(FindCoordinatorRequest)
        if version >= 4:
            request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=list(keys))
            read_coordinators(await calls.send(connection, request, version, timeout_ms), answers)
        else:
            for key in keys:
                request = FindCoordinatorRequest(key=key, key_type=self._key_type)
                response = await calls.send(connection, request, version, timeout_ms)
                read_coordinator(response, key, answers)
        await place_at_known_nodes(answers, calls, timeout_ms, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return answers


def group_coordinators() -> Coordinators:
    """The coordinators of groups."""
    return Coordinators("group", "groups", KEY_GROUP)


def transaction_coordinators() -> Coordinators:
    """The coordinators of transactional ids."""
    return Coordinators("transactional_id", "transactional ids", KEY_TRANSACTION)


def read_coordinators(response: FindCoordinatorResponse, answers: Answers[str, int]) -> None:
    """Who coordinates each of the keys that were asked for together."""
    for found in response.coordinators:
        answers.take(found.key, found.node_id, found.error_code, found.error_message)


def read_coordinator(
    response: FindCoordinatorResponse, key: str, answers: Answers[str, int]
) -> None:
    """Who coordinates the one key that was asked for."""
    answers.take(key, response.node_id, response.error_code, response.error_message)


class Leaders:
    """The leaders of partitions."""

    what = "partition"
    plural = "partitions"
    verdicts: Verdicts = AT_LEADER

    def __init__(self) -> None:
        self._lookups = 0

    async def find(
        self, keys: Sequence[TopicPartition], calls: Calls, timeout_ms: float
    ) -> Answers[TopicPartition, int]:
        """What the metadata of their topics says at this moment."""
        self._lookups += 1
        verdicts = dict(AT_LEADER)
        if self._lookups >= UNKNOWN_TOPIC_LOOKUPS:
            del verdicts[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        node = await calls.network.any_node()
        answers: Answers[TopicPartition, int] = Answers(
            "Metadata", self.what, calls.network.name_of(node), verdicts
        )
        request = MetadataRequest(
            topics=[
                MetadataRequestTopic(name=topic) for topic in dict.fromkeys(t for t, _ in keys)
            ],
            allow_auto_topic_creation=False,
        )
        response = await calls.call_with(node, request, timeout_ms)
        read_leaders(response, keys, answers)
        await place_at_known_nodes(answers, calls, timeout_ms, ErrorCode.LEADER_NOT_AVAILABLE)
        return answers


def read_leaders(
    response: MetadataResponse,
    keys: Iterable[TopicPartition],
    answers: Answers[TopicPartition, int],
) -> None:
    """Who leads each of the partitions that were asked for."""
    topics = {topic.name: topic for topic in response.topics}
    for key in keys:
        topic = topics.get(key.topic)
        if topic is None or topic.error_code:
            code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.refuse(key, code)
            continue
        partition = next((p for p in topic.partitions if p.partition_index == key.partition), None)
        if partition is None:
            reason = f"Topic {key.topic} has {len(topic.partitions)} partitions."
            answers.refuse(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        elif partition.leader_id >= 0:
            # An error beside a leader is about other replicas: the leader can be asked.
            answers.give(key, partition.leader_id)
        else:
            answers.refuse(key, partition.error_code or ErrorCode.LEADER_NOT_AVAILABLE)


async def place_at_known_nodes(
    answers: Answers[K, int], calls: Calls, timeout_ms: float, code: ErrorCode
) -> None:
    """Makes sure that there are connections to be had to the nodes that were found."""
    await calls.know_nodes(answers.results.values(), timeout_ms)
    for key, node in list(answers.results.items()):
        if node not in calls.network.cluster.nodes:
            del answers.results[key]
            answers.refuse(key, code, f"It is broker {node}, whose address is not known yet.")
