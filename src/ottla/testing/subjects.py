"""What requests are about: the topics, partitions, groups and transactional ids in them, and in their responses.

A fault that names a topic has to find it in twenty differently shaped requests, and an error that concerns one
partition belongs to that partition's place in the response. `SUBJECTS` says for each API where these places are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from ottla.broker.handlers.find_coordinator import GROUP
from ottla.broker.requests.apis import SERVED
from ottla.wire.declare import fields_of
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.types import ZERO_UUID


class Kind(Enum):
    """What an element of a list stands for."""

    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    TRANSACTION = "transactional_id"
    # A group or a transactional id, as the request says for all of its keys.
    COORDINATOR = "coordinator"
    OTHER = "other"


@dataclass(frozen=True)
class Listed:
    """A list of a request, and the list of the response that answers it element by element.

    `key` is the field that names an element, in the request and in the response; "" where the element of the request
    is the name itself.
    """

    asked: str
    answered: str
    kind: Kind
    key: tuple[str, str]
    inner: tuple[Listed, ...] = ()


def _topics(
    asked: str, answered: str, *inner: Listed, key: tuple[str, str] | None = None
) -> Listed:
    return Listed(asked, answered, Kind.TOPIC, key or ("name", "name"), inner)


def _partitions(asked: str, answered: str, asked_key: str, answered_key: str) -> Listed:
    return Listed(asked, answered, Kind.PARTITION, (asked_key, answered_key))


_PARTITIONS = _partitions("partitions", "partitions", "partition_index", "partition_index")
_INDEXES = _partitions("partition_indexes", "partitions", "", "partition_index")
_TXN_PARTITIONS = _partitions("partitions", "results_by_partition", "", "partition_index")
_TOPIC = ("topic", "topic")
_RESOURCE = ("resource_name", "resource_name")

# The results of some APIs name nothing: the text of the error takes this place.
_UNNAMED = "error_message"

SUBJECTS: dict[str, tuple[Listed, ...]] = {
    "AddOffsetsToTxn": (),
    "AddPartitionsToTxn": (
        Listed(
            "transactions",
            "results_by_transaction",
            Kind.TRANSACTION,
            ("transactional_id", "transactional_id"),
            (_topics("topics", "topic_results", _TXN_PARTITIONS),),
        ),
        _topics("v3_and_below_topics", "results_by_topic_v3_and_below", _TXN_PARTITIONS),
    ),
    "AddRaftVoter": (),
    "AlterClientQuotas": (),
    "AlterConfigs": (Listed("resources", "responses", Kind.OTHER, _RESOURCE),),
    "AlterPartitionReassignments": (_topics("topics", "responses", _PARTITIONS),),
    "AlterReplicaLogDirs": (),
    "AlterShareGroupOffsets": (),
    "AlterUserScramCredentials": (
        Listed("deletions", "results", Kind.OTHER, ("name", "user")),
        Listed("upsertions", "results", Kind.OTHER, ("name", "user")),
    ),
    "ApiVersions": (),
    "ConsumerGroupDescribe": (Listed("group_ids", "groups", Kind.GROUP, ("", "group_id")),),
    "ConsumerGroupHeartbeat": (),
    "CreateAcls": (Listed("creations", "results", Kind.OTHER, ("resource_name", _UNNAMED)),),
    "CreateDelegationToken": (),
    "CreatePartitions": (_topics("topics", "results"),),
    "CreateTopics": (_topics("topics", "topics"),),
    "DeleteAcls": (
        Listed("filters", "filter_results", Kind.OTHER, ("resource_name_filter", _UNNAMED)),
    ),
    "DeleteGroups": (Listed("groups_names", "results", Kind.GROUP, ("", "group_id")),),
    "DeleteRecords": (_topics("topics", "topics", _PARTITIONS),),
    "DeleteShareGroupOffsets": (),
    "DeleteTopics": (
        _topics("topics", "responses"),
        _topics("topic_names", "responses", key=("", "name")),
    ),
    "DescribeAcls": (),
    "DescribeClientQuotas": (),
    "DescribeCluster": (),
    "DescribeConfigs": (Listed("resources", "results", Kind.OTHER, _RESOURCE),),
    "DescribeDelegationToken": (),
    "DescribeGroups": (Listed("groups", "groups", Kind.GROUP, ("", "group_id")),),
    "DescribeLogDirs": (),
    "DescribeProducers": (_topics("topics", "topics", _INDEXES),),
    "DescribeQuorum": (),
    "DescribeShareGroupOffsets": (
        Listed("groups", "groups", Kind.GROUP, ("group_id", "group_id")),
    ),
    "DescribeTopicPartitions": (_topics("topics", "topics"),),
    "DescribeTransactions": (
        Listed(
            "transactional_ids",
            "transaction_states",
            Kind.TRANSACTION,
            ("", "transactional_id"),
        ),
    ),
    "DescribeUserScramCredentials": (Listed("users", "results", Kind.OTHER, ("name", "user")),),
    "ElectLeaders": (
        _topics(
            "topic_partitions",
            "replica_election_results",
            _partitions("partitions", "partition_result", "", "partition_id"),
            key=_TOPIC,
        ),
    ),
    "EndTxn": (),
    "ExpireDelegationToken": (),
    "Fetch": (
        _topics(
            "topics",
            "responses",
            _partitions("partitions", "partitions", "partition", "partition_index"),
            key=_TOPIC,
        ),
    ),
    "FindCoordinator": (Listed("coordinator_keys", "coordinators", Kind.COORDINATOR, ("", "key")),),
    "GetTelemetrySubscriptions": (),
    "Heartbeat": (),
    "IncrementalAlterConfigs": (Listed("resources", "responses", Kind.OTHER, _RESOURCE),),
    "InitProducerId": (),
    "JoinGroup": (),
    "LeaveGroup": (),
    "ListConfigResources": (),
    "ListGroups": (),
    "ListOffsets": (_topics("topics", "topics", _PARTITIONS),),
    "ListPartitionReassignments": (),
    "ListTransactions": (),
    "Metadata": (_topics("topics", "topics"),),
    "OffsetCommit": (_topics("topics", "topics", _PARTITIONS),),
    "OffsetDelete": (_topics("topics", "topics", _PARTITIONS),),
    "OffsetFetch": (
        Listed(
            "groups",
            "groups",
            Kind.GROUP,
            ("group_id", "group_id"),
            (_topics("topics", "topics", _INDEXES),),
        ),
        _topics("topics", "topics", _INDEXES),
    ),
    "OffsetForLeaderEpoch": (
        _topics(
            "topics",
            "topics",
            _partitions("partitions", "partitions", "partition", "partition"),
            key=_TOPIC,
        ),
    ),
    "Produce": (
        _topics(
            "topic_data",
            "responses",
            _partitions("partition_data", "partition_responses", "index", "index"),
        ),
    ),
    "PushTelemetry": (),
    "RemoveRaftVoter": (),
    "RenewDelegationToken": (),
    "SaslAuthenticate": (),
    "SaslHandshake": (),
    "ShareAcknowledge": (),
    "ShareFetch": (),
    "ShareGroupDescribe": (Listed("group_ids", "groups", Kind.GROUP, ("", "group_id")),),
    "ShareGroupHeartbeat": (),
    "StreamsGroupDescribe": (Listed("group_ids", "groups", Kind.GROUP, ("", "group_id")),),
    "StreamsGroupHeartbeat": (),
    "StreamsGroupTopologyDescriptionUpdate": (),
    "SyncGroup": (),
    "TxnOffsetCommit": (_topics("topics", "topics", _PARTITIONS),),
    "UnregisterBroker": (),
    "UpdateFeatures": (),
    "WriteTxnMarkers": (
        Listed(
            "markers",
            "markers",
            Kind.OTHER,
            ("producer_id", "producer_id"),
            (_topics("topics", "topics", _INDEXES),),
        ),
    ),
}

# Says which topic an element names: requests of newer versions carry ids.
TopicName = Callable[[UUID], str | None]
# Whether a fault concerns one of the things that a request names.
Concerns = Callable[["Named"], bool]


class Named(NamedTuple):
    """One thing that a request names."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None


class Names:
    """Everything that a request is about; what the whole request names is in each.

    It is found when and as far as it is looked for: a request may name a hundred thousand partitions.
    """

    def __init__(self, api: str, request: Any, topic_name: TopicName) -> None:
        self._lists = SUBJECTS[api]
        self.request = request
        self.topic_name = topic_name

    def __iter__(self) -> Iterator[Named]:
        whole = whole_of(self.request)
        is_empty = True
        for listed in self._lists:
            for named in _named(self.request, listed, whole, self.topic_name):
                is_empty = False
                yield named
        if is_empty:
            yield whole

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(_count(self.request, listed) for listed in self._lists) or 1

    @property
    def topics(self) -> Iterator[str]:
        """The topics, without their partitions."""
        whole = whole_of(self.request)
        for listed in self._lists:
            yield from _topics_in(self.request, listed, whole, self.topic_name)


def whole_of(request: Any) -> Named:
    """What a request names as a whole: its group, its transactional id."""
    if isinstance(request, FindCoordinatorRequest):
        # Since version 4 the keys are listed, and the key itself is empty.
        is_group = request.key_type == GROUP
        return Named(group=request.key) if is_group else Named(transactional_id=request.key)
    return Named(
        group=getattr(request, "group_id", None) or None,
        transactional_id=getattr(request, "transactional_id", None)
        or getattr(request, "v3_and_below_transactional_id", None)
        or None,
    )


def _named(owner: Any, listed: Listed, outer: Named, topic_name: TopicName) -> Iterator[Named]:
    for element in getattr(owner, listed.asked) or ():
        named = name_of(element, listed, outer, topic_name)
        is_leaf = True
        for deeper in listed.inner:
            for found in _named(element, deeper, named, topic_name):
                is_leaf = False
                yield found
        if is_leaf:
            yield named


def _count(owner: Any, listed: Listed) -> int:
    elements = getattr(owner, listed.asked) or ()
    if not listed.inner:
        return len(elements)
    return sum(sum(_count(element, deeper) for deeper in listed.inner) or 1 for element in elements)


def _topics_in(owner: Any, listed: Listed, outer: Named, topic_name: TopicName) -> Iterator[str]:
    for element in getattr(owner, listed.asked) or ():
        if listed.kind is Kind.TOPIC:
            topic = name_of(element, listed, outer, topic_name).topic
            if topic is not None:
                yield topic
        else:
            for deeper in listed.inner:
                yield from _topics_in(element, deeper, outer, topic_name)


def name_of(element: Any, listed: Listed, outer: Named, topic_name: TopicName) -> Named:
    """What an element of a list names, together with what the lists around it name."""
    key = listed.key[0]
    value = getattr(element, key) if key else element
    match listed.kind:
        case Kind.TOPIC:
            name = value or topic_name(getattr(element, "topic_id", ZERO_UUID))
            return Named(name, outer.partition, outer.group, outer.transactional_id)
        case Kind.PARTITION:
            return Named(outer.topic, value, outer.group, outer.transactional_id)
        case Kind.GROUP:
            return Named(outer.topic, outer.partition, value, outer.transactional_id)
        case Kind.TRANSACTION:
            return Named(outer.topic, outer.partition, outer.group, value)
        case Kind.COORDINATOR:
            is_group = outer.group is not None
            return Named(group=value) if is_group else Named(transactional_id=value)
        case Kind.OTHER:
            return outer


def kinds_named_by(api: str) -> set[Kind]:
    """What requests of an API can name, in some version."""
    request: type = next(served.request for served in SERVED.values() if served.name == api)
    kinds = set(_kinds_in(SUBJECTS[api]))
    if Kind.COORDINATOR in kinds:
        kinds |= {Kind.GROUP, Kind.TRANSACTION}
    for field in fields_of(request):
        if field.name == "group_id":
            kinds.add(Kind.GROUP)
        elif field.name.endswith("transactional_id"):
            kinds.add(Kind.TRANSACTION)
    return kinds


def _kinds_in(lists: Sequence[Listed]) -> Iterator[Kind]:
    for listed in lists:
        yield listed.kind
        yield from _kinds_in(listed.inner)
