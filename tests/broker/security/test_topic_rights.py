"""Topics, configs and the cluster: who may do what, in which order checks come, and what nobody learns."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.broker.requests import (
    batch_of,
    create,
    eventually,
    fetch,
    fetch_request,
    fill,
    produce,
    produce_request,
)
from tests.broker.security import topic_rows as rows
from tests.broker.security.coordination_rows import (
    NO_CLUSTER,
    NO_TOPIC,
    NO_TRANSACTION,
    NONE,
    OTHER_TOPIC,
    READ_OTHER,
    READ_TOPIC,
    TOPIC,
    TRANSACTION,
    WRITE_OTHER,
    WRITE_TOPIC,
    Ids,
    Row,
)
from tests.broker.security.denials import denials_in
from tests.broker.security.rights import Right, only
from tests.broker.security.row_checks import (
    check_all_rights,
    check_missing_right,
    each_missing_right,
    each_version,
)
from tests.broker.security.topic_rows import ROWS
from tests.security.kafka_answers.message_builder import classes_of, last_version, request_of

import ottla
from ottla.access import CLUSTER, SUPPORTED_OPERATIONS, Operation, ResourceType, topic
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.testing import Broker
from ottla.wire.messages.fetch import FetchPartition, FetchResponse, ForgottenTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceResponse

MISSING = "rights-missing"
UNKNOWN_ID = uuid.UUID(int=99)
UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def secured() -> Iterator[ottla.Broker]:
    """A broker of its own: what a test forbids would be forbidden to others, too."""
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def wire(secured: ottla.Broker) -> Iterator[RawConnection]:
    with RawConnection(secured.bootstrap_servers) as connected:
        yield connected


@pytest.fixture(scope="module")
def ids(wire: RawConnection) -> Ids:
    return Ids(create(wire, TOPIC), create(wire, OTHER_TOPIC))


def ask(
    wire: RawConnection, api: str, fields: Mapping[str, Any], version: int | None = None
) -> Any:
    """The answer to a request, in its newest version unless said otherwise."""
    version = last_version(api) if version is None else version
    return wire.call(request_of(api, fields), classes_of(api)[1], version)


def exists(wire: RawConnection, name: str) -> bool:
    request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    return bool(ask(wire, "Metadata", request).topics[0].error_code == NONE)


def right(operation: Operation, name: str = TOPIC) -> Right:
    return Right(operation, topic(name))


def of_cluster(operation: Operation) -> Right:
    return Right(operation, CLUSTER)


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


@pytest.mark.parametrize(("row", "version", "missing"), each_missing_right(ROWS))
def test_a_missing_right_is_refused_where_kafka_refuses_it(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, row: Row, version: int, missing: int
) -> None:
    check_missing_right(secured, wire, ids, row, version, missing)


@pytest.mark.parametrize(("row", "version"), each_version(ROWS))
def test_all_rights_suffice(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, row: Row, version: int
) -> None:
    check_all_rights(secured, wire, ids, row, version)


# Produce.


def test_a_refused_batch_is_not_appended_and_whoever_waits_for_no_answer_is_disconnected(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    before = fetch(wire, TOPIC, 0).high_watermark
    with only(secured):
        assert produce(wire, TOPIC, batch_of(b"v")).error_code == NO_TOPIC
        with RawConnection(secured.bootstrap_servers) as impatient:
            impatient.send(produce_request(TOPIC, batch_of(b"v"), acks=0), 9)
            with pytest.raises(ConnectionError):
                impatient.receive_frame()
    assert fetch(wire, TOPIC, 0).high_watermark == before


def test_a_producer_is_refused_before_its_acks_and_its_partition_but_after_its_topic_id(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    with only(secured):
        assert produce(wire, TOPIC, batch_of(b"v"), acks=7).error_code == NO_TOPIC
        assert produce(wire, TOPIC, batch_of(b"v"), partition=7).error_code == NO_TOPIC
        assert produce(wire, MISSING, batch_of(b"v")).error_code == NO_TOPIC
        assert produce(wire, "__consumer_offsets", batch_of(b"v")).error_code == NO_TOPIC
        data = [{"index": 0, "records": batch_of(b"v")}]
        answer = ask(
            wire,
            "Produce",
            {"acks": 1, "topic_data": [{"topic_id": UNKNOWN_ID, "partition_data": data}]},
        )
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("transactional_id", [TRANSACTION, None])
def test_one_transactional_batch_without_the_right_refuses_the_whole_request(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, transactional_id: str | None
) -> None:
    before = fetch(wire, OTHER_TOPIC, 0).high_watermark
    topics = [
        {"name": name, "partition_data": [{"index": 0, "records": records}]}
        for name, records in (
            (OTHER_TOPIC, batch_of(b"v")),
            (TOPIC, rows.transactional_batch()),
            (MISSING, None),
        )
    ]
    request = {"acks": -1, "transactional_id": transactional_id, "topic_data": topics}
    with only(secured, WRITE_TOPIC, WRITE_OTHER):
        answer = ask(wire, "Produce", request, 12)
    assert denials_in(answer) == [NO_TRANSACTION] * 3
    assert fetch(wire, OTHER_TOPIC, 0).high_watermark == before


def test_a_transactional_id_is_not_looked_at_where_nothing_is_transactional(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    data = [{"index": 0, "records": batch_of(b"v")}]
    with only(secured, WRITE_TOPIC) as rights:
        answer = ask(
            wire,
            "Produce",
            {
                "acks": -1,
                "transactional_id": TRANSACTION,
                "topic_data": [{"name": TOPIC, "partition_data": data}],
            },
            12,
        )
    assert answer.responses[0].partition_responses[0].error_code == NONE
    assert rights.asked == [WRITE_TOPIC]


# Fetch.


def test_a_fetch_session_is_checked_at_every_fetch(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    session = 0

    def incremental(epoch: int, **fields: Any) -> dict[str, int]:
        """The errors of the partitions that an incremental fetch answers about."""
        request = fetch_request(TOPIC, 0, max_wait_ms=0)
        request.session_id, request.session_epoch, request.topics = session, epoch, []
        for name, value in fields.items():
            setattr(request, name, value)
        answer = wire.call(request, FetchResponse, 12)
        assert answer.error_code == NONE
        return {
            each.topic: partition.error_code
            for each in answer.responses
            for partition in each.partitions
        }

    with only(secured, READ_TOPIC):
        request = fetch_request(TOPIC, 0, max_wait_ms=0)
        request.session_epoch = 0
        request.topics += fetch_request(OTHER_TOPIC, 0).topics
        answer = wire.call(request, FetchResponse, 12)
        session = answer.session_id
        assert session
        assert denials_in(answer) == [NONE, NO_TOPIC]
        # A refused partition is told again and again, as any error.
        assert incremental(1)[OTHER_TOPIC] == NO_TOPIC
    with only(secured, READ_OTHER):
        assert incremental(2) == {TOPIC: NO_TOPIC, OTHER_TOPIC: NONE}
        forgotten = [ForgottenTopic(topic=TOPIC, partitions=[0])]
        assert TOPIC not in incremental(3, forgotten_topics_data=forgotten)


def test_an_unknown_topic_id_is_told_to_consumers_and_nothing_to_false_followers(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    request = {"session_epoch": -1, "topics": [{"topic_id": UNKNOWN_ID, "partitions": partitions}]}
    with only(secured, READ_TOPIC):
        answer = ask(wire, "Fetch", request)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        answer = ask(wire, "Fetch", {**request, "replica_state": {"replica_id": 3}})
        assert answer.responses[0].partitions[0].error_code == NO_TOPIC


def test_many_partitions_ask_once_for_each_topic(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    """Above 256 partitions a fetch is read in steps; both ways ask alike."""
    for count in (200, 1000):
        request = fetch_request(TOPIC, 0, max_wait_ms=0)
        request.session_epoch = -1
        request.topics += fetch_request(OTHER_TOPIC, 0).topics
        for about in request.topics:
            about.partitions = [
                FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1)
                for number in range(count // 2)
            ]
        with only(secured, READ_TOPIC) as rights:
            answer = wire.call(request, FetchResponse, 12)
        assert rights.asked == [READ_TOPIC, READ_OTHER]
        assert set(denials_in(answer)[: count // 2]) == {NONE}
        assert set(denials_in(answer)[count // 2 :]) == {NO_TOPIC}


def test_large_requests_are_checked_in_their_pieces(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    request = produce_request(TOPIC, None)
    request.topic_data += produce_request(OTHER_TOPIC, None).topic_data
    for about in request.topic_data:
        about.partition_data = [
            PartitionProduceData(index=number, records=None) for number in range(500)
        ]
    listed = [{"partition_index": number, "timestamp": -1} for number in range(500)]
    topics = [{"name": name, "partitions": listed} for name in (TOPIC, OTHER_TOPIC)]
    with only(secured, WRITE_TOPIC) as rights:
        produced = wire.call(request, ProduceResponse, 12)
        assert len(rights.asked) < 20
        offsets = ask(wire, "ListOffsets", {"replica_id": -1, "topics": topics})
    for answer in (produced, offsets):
        assert denials_in(answer) == [NONE] * 500 + [NO_TOPIC] * 500


@pytest.mark.parametrize("api", ["ElectLeaders", "AlterPartitionReassignments"])
def test_a_large_request_that_is_refused_as_a_whole_is_answered_about_each_partition(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, api: str
) -> None:
    moved = [{"partition_index": number} for number in range(600)]
    fields: dict[str, Any] = {"topics": [{"name": TOPIC, "partitions": moved}]}
    if api == "ElectLeaders":
        topics = [{"topic": TOPIC, "partitions": list(range(600))}]
        fields = {"election_type": 0, "topic_partitions": topics}
    with only(secured):
        assert denials_in(ask(wire, api, fields)) == [NO_CLUSTER] * 601


# What nobody learns of topics that it may not see.


@pytest.mark.parametrize("version", [0, 1, 13])
def test_all_topics_are_those_that_the_client_may_see(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, version: int
) -> None:
    request: dict[str, Any] = {"topics": None if version else []}
    with only(secured, READ_OTHER) as rights:
        answer = ask(wire, "Metadata", request, version)
        paged = ask(wire, "DescribeTopicPartitions", {"topics": [], "response_partition_limit": 10})
    assert [each.name for each in answer.topics] == [OTHER_TOPIC]
    assert [each.name for each in paged.topics] == [OTHER_TOPIC]
    assert rights.denied == []  # nobody asked for the others


@pytest.mark.parametrize("creates", [True, False])
def test_a_hidden_topic_looks_like_one_that_does_not_exist(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, creates: bool
) -> None:
    """Whatever is asked about it by name."""
    requests: list[tuple[str, Any]] = [
        ("Metadata", lambda name: {"topics": [{"name": name}], "allow_auto_topic_creation": creates}),
        ("DescribeTopicPartitions", lambda name: {"topics": [{"name": name}], "response_partition_limit": 1}),
        ("DeleteTopics", lambda name: {"topics": [{"name": name}]}),
        ("CreateTopics", lambda name: {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}]}),
        ("CreatePartitions", lambda name: {"topics": [{"name": name, "count": 1}]}),
        ("DescribeConfigs", lambda name: {"resources": [{"resource_type": 2, "resource_name": name}]}),
        ("AlterConfigs", lambda name: {"resources": [{"resource_type": 2, "resource_name": name}]}),
        ("IncrementalAlterConfigs", lambda name: {"resources": [{"resource_type": 2, "resource_name": name}]}),
        ("DeleteRecords", lambda name: {"topics": [{"name": name, "partitions": [{"partition_index": 0}]}]}),
    ]  # fmt: skip
    with only(secured):
        for api, fields in requests:
            there, gone = (str(ask(wire, api, fields(name))) for name in (TOPIC, MISSING))
            assert there.replace(TOPIC, MISSING) == gone, api
            assert "29" in there
    assert not exists(wire, MISSING)


def test_a_hidden_topic_has_no_name_where_its_id_is_asked_for(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    topics = [{"topic_id": each, "name": None} for each in (*ids, UNKNOWN_ID)]
    with only(secured, READ_OTHER):
        answer = ask(wire, "Metadata", {"topics": topics})
    assert [(each.error_code, each.name, each.topic_id) for each in answer.topics] == [
        (NO_TOPIC, None, ids.one),
        (NONE, OTHER_TOPIC, ids.other),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, UNKNOWN_ID),
    ]


def test_a_page_goes_on_behind_a_topic_that_was_hidden_meanwhile(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    def page(*names: str, topic_name: str, partition: int) -> Any:
        cursor = {"topic_name": topic_name, "partition_index": partition}
        topics = [{"name": name} for name in names]
        fields = {"topics": topics, "response_partition_limit": 9, "cursor": cursor}
        return ask(wire, "DescribeTopicPartitions", fields).topics

    with only(secured, READ_OTHER):
        for names in ((), (TOPIC, OTHER_TOPIC)):
            (one, *refused) = page(*names, topic_name=TOPIC, partition=5)
            assert (one.name, len(one.partitions)) == (OTHER_TOPIC, 1)
            assert [each.error_code for each in refused] == [NO_TOPIC][: len(names)]
        # A cursor that cannot be one names no topic.
        assert page(topic_name=TOPIC, partition=-1) == []


# Creating and deleting.


@pytest.mark.parametrize("resource", ["cluster", "topic"])
def test_a_first_use_creates_a_topic_for_whoever_may_create_it(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, resource: str
) -> None:
    name = f"rights-first-use-{resource}"
    request = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    with only(secured, right(Operation.DESCRIBE, name)):
        (refused,) = ask(wire, "Metadata", request).topics
        assert (refused.error_code, refused.name) == (NO_TOPIC, name)
        unasked = {**request, "allow_auto_topic_creation": False}
        assert ask(wire, "Metadata", unasked).topics[0].error_code == UNKNOWN_TOPIC
    assert not exists(wire, name)
    allowed = (
        of_cluster(Operation.CREATE) if resource == "cluster" else right(Operation.CREATE, name)
    )
    with only(secured, right(Operation.DESCRIBE, name), allowed):
        assert ask(wire, "Metadata", request).topics[0].error_code == NONE
    assert exists(wire, name)


def test_a_right_on_the_cluster_creates_topics_and_configs_are_shown_to_whoever_may_see_them(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    wanted = [
        {"name": name, "num_partitions": 1, "replication_factor": 1}
        for name in (rows.NEW, rows.OTHER_NEW)
    ]
    request = {"topics": wanted, "validate_only": True}
    shown = right(Operation.DESCRIBE_CONFIGS, rows.NEW)
    with only(secured, of_cluster(Operation.CREATE), shown) as rights:
        one, other = ask(wire, "CreateTopics", request).topics
    assert rights.denied == []
    assert (one.error_code, one.topic_config_error_code, one.num_partitions) == (NONE, NONE, 1)
    assert one.configs
    assert (other.error_code, other.topic_config_error_code) == (NONE, NO_TOPIC)
    assert (other.num_partitions, other.replication_factor, other.configs) == (-1, -1, [])


def test_what_is_asked_for_twice_is_refused_for_that(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    twice: dict[str, dict[str, Any]] = {
        "CreateTopics": {"name": rows.NEW, "num_partitions": 1, "replication_factor": 1},
        "CreatePartitions": {"name": TOPIC, "count": 2},
        "DeleteTopics": {"name": TOPIC},
    }
    with only(secured):
        for api, about in twice.items():
            answer = ask(wire, api, {"topics": [about, about]})
            results = getattr(answer, classes_results(api))
            assert {each.error_code for each in results} == {ErrorCode.INVALID_REQUEST}
    assert exists(wire, TOPIC)


def classes_results(api: str) -> str:
    """Where the answer of an API has its results."""
    return {"CreateTopics": "topics", "CreatePartitions": "results"}.get(api, "responses")


def test_topics_are_deleted_by_whoever_may_delete_them(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    names = [f"rights-doomed-{number}" for number in range(3)]
    by_name = {name: create(wire, name) for name in names}
    wanted = [{"topic_id": each, "name": None} for each in by_name.values()]
    with only(secured, right(Operation.DESCRIBE, names[1]), right(Operation.DELETE, names[2])):
        answer = ask(wire, "DeleteTopics", {"topics": wanted})
    told = [(each.error_code, each.name, each.topic_id) for each in answer.responses]
    hidden, seen, deleted = by_name.values()
    assert told == [(NO_TOPIC, None, hidden), (NO_TOPIC, names[1], seen), (NONE, names[2], deleted)]
    assert [exists(wire, name) for name in names] == [True, True, False]
    with only(secured, of_cluster(Operation.DELETE)):
        answer = ask(wire, "DeleteTopics", {"topics": [*wanted[:1], {"name": names[1]}]})
    assert [each.error_code for each in answer.responses] == [NONE, NONE]
    assert eventually(lambda: not any(exists(wire, name) for name in names))


def test_a_topic_that_may_be_described_but_not_deleted_stays(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    with only(secured, right(Operation.DESCRIBE), right(Operation.DESCRIBE, MISSING)):
        answer = ask(wire, "DeleteTopics", {"topics": [{"name": TOPIC}, {"name": MISSING}]})
    assert [each.error_code for each in answer.responses] == [NO_TOPIC, UNKNOWN_TOPIC]
    assert exists(wire, TOPIC)


def test_records_are_deleted_by_whoever_may_delete_topics(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    fill(wire, OTHER_TOPIC, b"v")
    before = fetch(wire, OTHER_TOPIC, 0).log_start_offset
    partitions = [{"partition_index": 0, "offset": -1}]
    with only(secured, WRITE_OTHER):
        request = {"topics": [{"name": OTHER_TOPIC, "partitions": partitions}]}
        assert denials_in(ask(wire, "DeleteRecords", request)) == [NO_TOPIC]
    assert fetch(wire, OTHER_TOPIC, before).log_start_offset == before


# Configs.


def test_configs_are_checked_in_kafkas_order(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    """A malformed change, an invalid option of a broker: both come before rights, other options behind them."""

    def alter(kind: int, name: str, *changes: tuple[str, str | None], times: int = 1) -> int:
        configs = [
            {"name": option, "config_operation": 0, "value": value} for option, value in changes
        ]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        fields = {"resources": [resource] * times, "validate_only": False}
        answer = ask(wire, "IncrementalAlterConfigs", fields)
        return int(answer.responses[0].error_code)

    invalid = ErrorCode.INVALID_REQUEST
    with only(secured):
        assert alter(2, TOPIC, ("retention.ms", "7"), times=2) == invalid
        assert alter(2, TOPIC, ("retention.ms", "7"), ("retention.ms", "8")) == invalid
        assert alter(2, TOPIC, ("retention.ms", None)) == invalid
        assert alter(4, "99", ("log.retention.ms", "7")) == invalid
        assert alter(4, "", ("no.such.option", "7")) not in (NONE, NO_CLUSTER)
        assert alter(2, TOPIC, ("no.such.option", "7")) == NO_TOPIC
        assert alter(2, TOPIC, ("retention.ms", "7")) == NO_TOPIC
        assert alter(4, "", ("log.retention.ms", "7")) == NO_CLUSTER
        assert alter(16, "rights-m", ("interval.ms", "no")) == NO_CLUSTER
        assert alter(8, "99", ("ottla", "INFO")) == NO_CLUSTER
        assert (
            alter(32, "", ("consumer.session.timeout.ms", "1"))
            == ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        assert alter(77, "what", ("a", "b")) == invalid
    with only(secured, right(Operation.DESCRIBE_CONFIGS)):
        fields = {
            "resources": [
                {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": ["retention.ms"]}
            ]
        }
        (result,) = ask(wire, "DescribeConfigs", fields).results
        assert [each.value for each in result.configs] == ["604800000"]


def test_a_refused_resource_does_not_refuse_the_others(
    secured: ottla.Broker, wire: RawConnection, ids: Ids
) -> None:
    with only(secured, right(Operation.ALTER_CONFIGS, OTHER_TOPIC)):
        configs = [{"name": "retention.ms", "value": "1000000"}]
        resources = [
            {"resource_type": 2, "resource_name": name, "configs": configs}
            for name in (TOPIC, OTHER_TOPIC)
        ]
        answer = ask(wire, "AlterConfigs", {"resources": resources})
    assert [each.error_code for each in answer.responses] == [NO_TOPIC, NONE]
    assert [each.error_message for each in answer.responses] == [
        "Topic authorization failed.",
        None,
    ]
    back = {"resources": [{"resource_type": 2, "resource_name": OTHER_TOPIC}]}
    assert denials_in(ask(wire, "AlterConfigs", back)) == [NONE]


# Authorized operations.


def test_authorized_operations_are_all_without_an_authorizer(wire: RawConnection, ids: Ids) -> None:
    everything = bits(*SUPPORTED_OPERATIONS[ResourceType.TOPIC])
    request = {"topics": [{"name": TOPIC}], "include_topic_authorized_operations": True}
    assert ask(wire, "Metadata", request).topics[0].topic_authorized_operations == everything
    paged = {"topics": [{"name": TOPIC}], "response_partition_limit": 1}
    (page,) = ask(wire, "DescribeTopicPartitions", paged).topics
    assert page.topic_authorized_operations == everything
    fields = {"endpoint_type": 1, "include_cluster_authorized_operations": True}
    answer = ask(wire, "DescribeCluster", fields)
    everything = bits(*SUPPORTED_OPERATIONS[ResourceType.CLUSTER])
    assert answer.cluster_authorized_operations == everything
    omitted = -(1 << 31)
    answer = ask(wire, "DescribeCluster", {"endpoint_type": 1})
    assert answer.cluster_authorized_operations == omitted
    answer = ask(wire, "Metadata", {"topics": [{"name": TOPIC}]}, 8)
    assert answer.topics[0].topic_authorized_operations == omitted
    assert answer.cluster_authorized_operations == omitted


@pytest.mark.parametrize("version", [8, 10])
def test_authorized_operations_are_those_of_the_client(
    secured: ottla.Broker, wire: RawConnection, ids: Ids, version: int
) -> None:
    request = {
        "topics": [{"name": name} for name in (TOPIC, OTHER_TOPIC)],
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    with only(secured, READ_TOPIC, of_cluster(Operation.ALTER)) as rights:
        answer = ask(wire, "Metadata", request, version)
    topics = {each.name: each.topic_authorized_operations for each in answer.topics}
    assert topics == {TOPIC: bits(Operation.READ, Operation.DESCRIBE), OTHER_TOPIC: -(1 << 31)}
    assert answer.cluster_authorized_operations == bits(Operation.ALTER, Operation.DESCRIBE)
    assert rights.denied == [right(Operation.DESCRIBE, OTHER_TOPIC)]
    with only(secured):
        assert ask(wire, "Metadata", request, version).cluster_authorized_operations == 0
        fields = {"endpoint_type": 1, "include_cluster_authorized_operations": True}
        assert ask(wire, "DescribeCluster", fields).cluster_authorized_operations == 0
