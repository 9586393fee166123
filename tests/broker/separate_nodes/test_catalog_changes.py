"""Changes of the catalog that several processes make at once: none undoes another's, and answers are true."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.separate_nodes.processes_of_nodes import SeparateNodes
from tests.storage.batches import SteppingClock

from ottla.broker.catalog_changes import MAX_DECISIONS, CatalogChanges, Decision
from ottla.broker.clock import SystemIds
from ottla.broker.cluster import Cluster
from ottla.broker.node import Node
from ottla.config.broker import BrokerConfig
from ottla.core.catalog import Catalog, NewTopic, Topic, folded_name
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode
from ottla.ports import CatalogConflictError, Follower, JsonValue
from ottla.storage.memory import MemoryStore
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

NONE = ErrorCode.NONE
TOPIC_RESOURCE, CLUSTER_RESOURCE = 2, 4
SEEDS = st.integers(0, 2**32)


def create(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for name in names
        ],
        timeout_ms=1000,
    )


def delete(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)


def grow(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


def set_option(topic: str, option: str, value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=option, config_operation=0, value=value)
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def acl(principal: str) -> dict[str, Any]:
    return {"principal": principal, "host": "*", "operation": 3, "permission_type": 3}


def grant(principal: str) -> CreateAclsRequest:
    creation = AclCreation(
        resource_type=TOPIC_RESOURCE,
        resource_name="orders",
        resource_pattern_type=3,
        **acl(principal),
    )
    return CreateAclsRequest(creations=[creation])


def revoke(principal: str) -> DeleteAclsRequest:
    wanted = DeleteAclsFilter(
        resource_type_filter=TOPIC_RESOURCE,
        resource_name_filter="orders",
        pattern_type_filter=3,
        principal_filter=principal,
        host_filter="*",
        operation=3,
        permission_type=3,
    )
    return DeleteAclsRequest(filters=[wanted])


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


@given(SEEDS)
@settings(max_examples=25)
def test_of_two_nodes_that_create_one_topic_only_one_does(seed: int) -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(seed, 2).start()
        answers = await nodes.answers(
            nodes[1].call(create("orders", partitions=2)),
            nodes[2].call(create("orders", partitions=5)),
        )
        errors = sorted(answer.topics[0].error_code for answer in answers)
        assert errors == [NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
        made = next(answer.topics[0] for answer in answers if not answer.topics[0].error_code)
        for node_id in nodes.node_ids:
            topic = nodes[node_id].cluster.catalog.topics["orders"]
            assert (topic.topic_id, topic.partition_count) == (made.topic_id, made.num_partitions)

    run(scenario)


@given(SEEDS)
@settings(max_examples=25)
def test_a_change_is_answered_when_every_node_acts_by_it(seed: int) -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(seed).start()
        reply = asyncio.ensure_future(nodes[1].call(create("orders")))
        while not reply.done():
            nodes.shared.deliver()
            await asyncio.sleep(0)
        assert all("orders" in nodes[each].cluster.catalog.topics for each in nodes.node_ids)

    run(scenario)


@given(SEEDS)
@settings(max_examples=25)
def test_options_that_several_nodes_set_at_once_are_all_set(seed: int) -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(seed).start()
        await nodes.answer(nodes[1].call(create("orders")))
        wanted = {"retention.ms": "1000", "segment.bytes": "2000000", "max.message.bytes": "3000"}
        answers = await nodes.answers(
            *(
                nodes[node_id].call(set_option("orders", option, value))
                for node_id, (option, value) in zip(nodes.node_ids, wanted.items(), strict=True)
            )
        )
        assert [answer.responses[0].error_code for answer in answers] == [NONE] * 3
        for node_id in nodes.node_ids:
            assert nodes[node_id].cluster.catalog.topics["orders"].config == wanted

    run(scenario)


@given(SEEDS)
@settings(max_examples=25)
def test_producer_ids_of_several_nodes_are_never_the_same(seed: int) -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(seed).start()
        given_out: list[int] = []
        for _ in range(40):
            process = nodes[nodes.rng.choice(list(nodes.node_ids))]
            for _ in range(nodes.rng.randrange(200)):
                taken = process.cluster.producer_ids.take()
                assert taken is not None, "the next block is there before the first is used up"
                given_out.append(taken)
            await nodes.shared.settle()
        assert len(set(given_out)) == len(given_out)

    run(scenario)


def test_a_producer_waits_for_a_block_that_is_late_instead_of_getting_an_error() -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(0, 1).start()
        ids = nodes[1].cluster.producer_ids
        while ids.take() is not None:
            pass
        waiting = [ids.take_later() for _ in range(3)]
        assert all(isinstance(each, asyncio.Future) for each in waiting)
        found = await nodes.answers(*waiting)
        assert len(set(found)) == 3
        assert None not in found

    run(scenario)


class History:
    """The catalog after each revision; checks what must be true of all of them."""

    def __init__(self) -> None:
        self.catalog = Catalog({})
        self.created: dict[str, list[object]] = {}
        self.producer_ids = 0

    def add(self, changes: Mapping[str, JsonValue]) -> None:
        for key, value in changes.items():
            name = key.removeprefix("topic/")
            if key.startswith("topic/") and isinstance(value, dict):
                known = self.catalog.topics.get(name)
                if known is None:
                    self.created.setdefault(name, []).append(value["id"])
                else:
                    assert str(known.topic_id) == value["id"], "a topic was overwritten"
                    count = value["partitions"]
                    assert isinstance(count, int)
                    assert count >= known.partition_count
            elif key.startswith("topic/"):
                assert name in self.catalog.topics, "a topic was deleted twice"
            elif key == "producer-ids":
                assert isinstance(value, int)
                assert value > self.producer_ids
                self.producer_ids = value
        self.catalog.apply(changes)
        folded = Counter(map(folded_name, self.catalog.topics))
        assert all(count == 1 for count in folded.values()), "names collide"


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_concurrent_changes_have_an_order_that_explains_every_answer(seed: int) -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(seed).start()
        rng = nodes.rng
        names = ["a.b", "a_b", "c", "d"]
        requests: list[tuple[str, str, Any]] = []
        for _ in range(rng.randrange(5, 25)):
            process = nodes[rng.choice(list(nodes.node_ids))]
            name = rng.choice(names)
            kind, request = rng.choice(
                [
                    ("create", create(name, partitions=rng.randrange(1, 4))),
                    ("create", create(name)),
                    ("delete", delete(name)),
                    ("grow", grow(name, rng.randrange(2, 8))),
                    ("configure", set_option(name, "retention.ms", str(rng.randrange(1000)))),
                    ("grant", grant(rng.choice(["User:a", "User:b"]))),
                    ("revoke", revoke(rng.choice(["User:a", "User:b"]))),
                ]
            )
            reply = process.call(request)
            if asyncio.iscoroutine(reply):
                reply = asyncio.ensure_future(reply)
            requests.append((kind, name, reply))
            for _ in range(rng.randrange(6)):
                nodes.shared.deliver()
                await asyncio.sleep(0)
        answers = await nodes.answers(*(reply for _, _, reply in requests))
        await nodes.tick()

        history = History()
        for changes in nodes.shared.history:
            history.add(changes)
        made: Counter[str] = Counter()
        for (kind, name, _), answer in zip(requests, answers, strict=True):
            if kind == "create" and not answer.topics[0].error_code:
                made[name] += 1
                assert str(answer.topics[0].topic_id) in history.created[name]
            if kind == "grant":
                assert answer.results[0].error_code == NONE
            if kind == "revoke":
                assert answer.filter_results[0].error_code == NONE
        assert made == Counter({name: len(ids) for name, ids in history.created.items()})
        for node_id in nodes.node_ids:
            process = nodes[node_id]
            assert process.catalog_copy.entries() == nodes.shared.entries
            assert process.cluster.catalog.topics == history.catalog.topics
            assert len(process.cluster.catalog.acls) == len(history.catalog.acls)
            assert not process.cluster.catalog.deleting, "every deletion is complete"

    run(scenario)


def test_a_catalog_that_takes_nothing_is_told_to_the_client() -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(1, 2).start()
        nodes.shared.is_full = True
        topic, acls = await nodes.answers(
            nodes[1].call(create("orders")), nodes[2].call(grant("User:a"))
        )
        assert topic.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert acls.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        nodes.shared.is_full = False
        assert not (await nodes.answer(nodes[1].call(create("orders")))).topics[0].error_code

    run(scenario)


class Contested:
    """A catalog that others change all the time."""

    revision = 0

    def __init__(self) -> None:
        self.commits = 0

    def entries(self) -> Mapping[str, JsonValue]:
        return {}

    def follow(self, follower: Follower) -> None:
        pass

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> Any:
        self.commits += 1
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        answer.set_exception(CatalogConflictError("another was quicker"))
        return answer


def test_a_change_is_not_decided_for_ever() -> None:
    async def scenario() -> None:
        catalog = Contested()
        changes = CatalogChanges(catalog)
        outcome = changes.make(lambda: Decision({"a": 1}, None))
        assert isinstance(outcome, asyncio.Future)
        refused = await outcome
        assert isinstance(refused, Refused)
        assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
        assert catalog.commits == MAX_DECISIONS

    run(scenario)


def test_a_change_whose_client_has_gone_holds_up_no_other() -> None:
    async def scenario() -> None:
        nodes = await SeparateNodes(3, 2).start()
        first = nodes[1].call(create("first"))
        tasks = [asyncio.ensure_future(first)]
        await asyncio.sleep(0)
        for name in ("second", "third"):
            tasks.append(asyncio.ensure_future(nodes[1].call(create(name))))
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[0].cancel()
        answer = await nodes.answer(tasks[2])
        assert not answer.topics[0].error_code
        assert "third" in nodes[2].cluster.catalog.topics

    run(scenario)


def test_in_one_process_a_change_is_made_within_the_call() -> None:
    clock = SteppingClock()
    cluster = Cluster(MemoryStore(clock=clock), clock, SystemIds())
    node = Node(cluster, BrokerConfig.read({}))
    cluster.join(node)
    made = node.topics.create([NewTopic("orders", 1, 1, {}, {})])  # without an event loop
    assert isinstance(made, list)
    assert isinstance(made[0], Topic)
    assert cluster.catalog.topics["orders"] == made[0]
    assert json.dumps(dict(cluster.store.catalog.entries()))
    assert [cluster.producer_ids.take() for _ in range(2)] == [0, 1]
