from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.core.catalog import (
    MAX_PARTITIONS_PER_REQUEST,
    PRODUCER_ID_BLOCK,
    Catalog,
    Changes,
    Deleted,
    Effects,
    NewTopic,
    check_name,
)
from ottla.core.outcomes import Refused
from ottla.errors import ErrorCode

LIVE = [1, 2, 3]
ID = uuid.UUID(int=1)
OTHER_ID = uuid.UUID(int=2)


def new(
    name: str = "orders",
    partitions: int = -1,
    replicas: int = -1,
    assignments: Mapping[int, list[int]] | None = None,
) -> NewTopic:
    return NewTopic(name, partitions, replicas, assignments or {}, {"retention.ms": "5"})


def create(catalog: Catalog, topic: NewTopic, topic_id: uuid.UUID = ID) -> Changes | Refused:
    return catalog.create(topic, topic_id, LIVE, 2, 1)


def with_topic(name: str = "orders", partitions: int = 3) -> Catalog:
    catalog = Catalog({})
    changes = create(catalog, new(name, partitions))
    assert not isinstance(changes, Refused)
    catalog.apply(changes)
    return catalog


def error_of(made: object) -> ErrorCode:
    assert isinstance(made, Refused), made
    assert made.message
    return made.error


def test_a_decision_changes_nothing_until_it_is_applied() -> None:
    catalog = Catalog({})
    changes = create(catalog, new())
    assert catalog.topics == {}
    assert not isinstance(changes, Refused)
    catalog.apply(changes)
    topic = catalog.topics["orders"]
    assert catalog.topics_by_id == {ID: topic}
    assert (topic.partition_count, topic.replication_factor) == (2, 1)
    assert topic.config == {"retention.ms": "5"}


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "with space", "slash/", "ümlaut", "line\n", "nul\0", "a:b"]
)
def test_names_that_kafka_refuses_are_refused(name: str) -> None:
    assert error_of(check_name(name)) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error_of(create(Catalog({}), new(name))) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "...", "a" * 249, "A-b_c.9"])
def test_names_that_kafka_takes_are_taken(name: str) -> None:
    assert check_name(name) is None


def test_a_name_is_taken_once() -> None:
    assert error_of(create(with_topic(), new())) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("first", "second"), [("a.b", "a_b"), ("a_b.c", "a.b_c")])
def test_names_that_differ_only_in_dots_and_underscores_collide(first: str, second: str) -> None:
    catalog = with_topic(first)
    assert error_of(create(catalog, new(second))) is ErrorCode.INVALID_TOPIC_EXCEPTION
    catalog.apply(catalog.delete(catalog.topics[first], 1000))
    assert not isinstance(create(catalog, new(second)), Refused)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (new(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (new(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (new(partitions=MAX_PARTITIONS_PER_REQUEST + 1), ErrorCode.INVALID_PARTITIONS),
        (new(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new(replicas=4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new(partitions=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (new(replicas=1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (new(assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new(assignments={0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new(assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new(assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new(assignments={0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (new(assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_shapes_that_cannot_be_are_refused(topic: NewTopic, error: ErrorCode) -> None:
    assert error_of(create(Catalog({}), topic)) is error


def test_assignments_say_how_many_partitions_and_replicas_there_are() -> None:
    catalog = Catalog({})
    changes = create(catalog, new(assignments={1: [2, 3], 0: [1, 2]}))
    assert not isinstance(changes, Refused)
    catalog.apply(changes)
    topic = catalog.topics["orders"]
    assert (topic.partition_count, topic.replication_factor) == (2, 2)


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error"),
    [
        ("nobody", 5, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 3, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 4 + MAX_PARTITIONS_PER_REQUEST, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 5, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 4, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 4, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_topics_only_grow_and_only_as_asked_properly(
    name: str, count: int, assignments: list[list[int]] | None, error: ErrorCode
) -> None:
    assert error_of(with_topic().add_partitions(name, count, assignments, LIVE)) is error


def test_a_topic_that_grew_keeps_its_id_and_config() -> None:
    catalog = with_topic()
    changes = catalog.add_partitions("orders", 5, [[1], [2]], LIVE)
    assert not isinstance(changes, Refused)
    catalog.apply(changes)
    topic = catalog.topics["orders"]
    assert (topic.partition_count, topic.topic_id) == (5, ID)
    assert topic.config == {"retention.ms": "5"}


def test_an_internal_topic_does_not_grow() -> None:
    catalog = Catalog({})
    changes = create(catalog, new("__consumer_offsets"))
    assert not isinstance(changes, Refused)
    catalog.apply(changes)
    refused = catalog.add_partitions("__consumer_offsets", 60, None, [1])
    assert isinstance(refused, Refused)
    assert refused.error is ErrorCode.INVALID_REQUEST


def test_a_deleted_topic_is_remembered_until_its_data_is_gone() -> None:
    catalog = with_topic()
    catalog.apply(catalog.delete(catalog.topics["orders"], 1000))
    assert catalog.topics == {}
    assert catalog.topics_by_id == {}
    assert catalog.deleting == {ID: Deleted("orders", 3, 1000)}
    catalog.apply(catalog.deleted_by([ID], [1], [1]))
    assert catalog.deleting == {}


def test_a_name_can_be_used_again_while_the_data_of_the_old_topic_goes() -> None:
    catalog = with_topic()
    catalog.apply(catalog.delete(catalog.topics["orders"], 1000))
    changes = create(catalog, new(), uuid.UUID(int=2))
    assert not isinstance(changes, Refused)
    catalog.apply(changes)
    catalog.apply(catalog.deleted_by([ID], [1], [1]))
    assert catalog.topics["orders"].topic_id == uuid.UUID(int=2)


def test_blocks_of_producer_ids_never_overlap_even_if_one_is_lost_in_a_crash() -> None:
    """Trap 11: the block is committed before any of its ids is used."""
    catalog = Catalog({})
    first, changes = catalog.reserve_producer_ids()
    assert len(first) == PRODUCER_ID_BLOCK
    restarted = Catalog(changes)
    second, changes = restarted.reserve_producer_ids()
    third, _ = Catalog(changes).reserve_producer_ids()
    assert first[-1] < second[0]
    assert second[-1] < third[0]


def test_groups_see_by_a_number_that_topics_have_changed() -> None:
    catalog = with_topic("orders", 3)
    created = catalog.topics_version
    assert catalog.created_version == created
    catalog.apply(catalog.configure(catalog.topics["orders"], {}))
    assert (catalog.topics_version, catalog.created_version) == (created, created)
    grown = catalog.add_partitions("orders", 4, None, LIVE)
    assert not isinstance(grown, Refused)
    catalog.apply(grown)
    assert catalog.topics_version > created
    assert catalog.created_version == created
    before = catalog.topics_version
    catalog.apply(catalog.delete(catalog.topics["orders"], 0))
    assert catalog.topics_version > before
    assert catalog.created_version == created
    again = create(catalog, new("orders", 3), uuid.UUID(int=2))
    assert not isinstance(again, Refused)
    catalog.apply(again)
    assert catalog.created_version == catalog.topics_version


def test_the_options_of_a_group_are_kept_until_there_are_none() -> None:
    catalog = Catalog({})
    catalog.apply(
        catalog.configure_groups({"g": {"consumer.session.timeout.ms": "50000"}, "h": {}})
    )
    assert catalog.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
    removed = catalog.configure_groups({"g": {}})
    assert list(removed.values()) == [None]
    catalog.apply(removed)
    assert catalog.group_configs == {}


def test_effects_say_what_changes_mean_before_they_are_applied() -> None:
    catalog = with_topic("orders", 3)
    orders = catalog.topics["orders"]
    created = create(catalog, new("refunds", 2), OTHER_ID)
    grown = catalog.add_partitions("orders", 5, None, LIVE)
    assert not isinstance(created, Refused)
    assert not isinstance(grown, Refused)

    effects = catalog.effects_of(
        {**created, **grown, **catalog.configure_groups({"kitchen": {"a": "b"}})}
    )
    assert [(each.topic.name, each.first_partition) for each in effects.grown] == [
        ("refunds", 0),
        ("orders", 3),
    ]
    assert (effects.deleted, effects.alters_options) == ([], False)
    assert effects.groups == ["kitchen"]

    configured = catalog.configure(orders, {"retention.ms": "1"})
    assert catalog.effects_of(configured) == Effects([], [], True, [])
    assert catalog.effects_of(catalog.configure(orders, orders.config)) == Effects(
        [], [], False, []
    )
    assert catalog.effects_of(catalog.configure_broker("", {})).alters_options
    assert catalog.effects_of(catalog.delete(orders, 1)).deleted == [orders]


def test_a_topic_that_replaces_another_of_its_name_is_new() -> None:
    catalog = with_topic("orders", 3)
    orders = catalog.topics["orders"]
    replacing = create(Catalog({}), new("orders", 3), OTHER_ID)
    assert not isinstance(replacing, Refused)
    effects = catalog.effects_of(replacing)
    assert effects.deleted == [orders]
    assert [(each.topic.topic_id, each.first_partition) for each in effects.grown] == [
        (OTHER_ID, 0)
    ]
    assert not effects.alters_options


def test_internal_topics_are_known_by_their_names() -> None:
    assert with_topic("__consumer_offsets").topics["__consumer_offsets"].is_internal
    assert not with_topic("orders").topics["orders"].is_internal


State = tuple[object, ...]


def state_of(catalog: Catalog) -> State:
    return (
        dict(catalog.topics),
        dict(catalog.topics_by_id),
        dict(catalog.broker_configs),
        catalog.next_producer_id,
        dict(catalog.deleting),
    )


class CatalogMachine(RuleBasedStateMachine):
    """What is stored says the same as what was applied, whatever was decided before."""

    names = st.sampled_from(["a", "b.c", "b_c", "d", "__consumer_offsets"])
    configs = st.dictionaries(st.sampled_from(["retention.ms", "x"]), st.just("1"), max_size=2)

    def __init__(self) -> None:
        super().__init__()
        self.catalog = Catalog({})
        self.entries: dict[str, Any] = {}
        self.ids = 0

    def _commit(self, changes: Changes | Refused) -> None:
        before = state_of(self.catalog)
        if isinstance(changes, Refused):
            assert changes.error is not ErrorCode.NONE
            return
        assert state_of(self.catalog) == before
        changes = dict(json.loads(json.dumps(changes)))
        self.catalog.apply(changes)
        after = state_of(self.catalog)
        self.catalog.apply(changes)
        assert state_of(self.catalog) == after
        for key, value in changes.items():
            self.entries[key] = value
            if value is None:
                del self.entries[key]

    @rule(
        name=names,
        partitions=st.sampled_from([-1, 0, 1, 3]),
        replicas=st.sampled_from([-1, 1, 4]),
        config=configs,
    )
    def create(self, name: str, partitions: int, replicas: int, config: dict[str, str]) -> None:
        self.ids += 1
        topic = NewTopic(name, partitions, replicas, {}, config)
        self._commit(self.catalog.create(topic, uuid.UUID(int=self.ids), LIVE, 2, 1))

    @rule(name=names, count=st.integers(0, 6))
    def grow(self, name: str, count: int) -> None:
        self._commit(self.catalog.add_partitions(name, count, None, LIVE))

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self.catalog.topics:
            self._commit(self.catalog.delete(self.catalog.topics[name], 1000))

    @rule()
    def finish_a_deletion(self) -> None:
        for topic_id in list(self.catalog.deleting)[:1]:
            self._commit(self.catalog.deleted_by([topic_id], [1], [1]))

    @rule(name=names, config=configs)
    def configure(self, name: str, config: dict[str, str]) -> None:
        if name in self.catalog.topics:
            self._commit(self.catalog.configure(self.catalog.topics[name], config))

    @rule(name=st.sampled_from(["", "1"]), config=configs)
    def configure_broker(self, name: str, config: dict[str, str]) -> None:
        self._commit(self.catalog.configure_broker(name, config))

    @rule()
    def reserve(self) -> None:
        before = self.catalog.next_producer_id
        block, changes = self.catalog.reserve_producer_ids()
        assert block[0] >= before
        self._commit(changes)
        assert self.catalog.next_producer_id > block[-1]

    @invariant()
    def a_restart_gives_the_same(self) -> None:
        assert state_of(Catalog(self.entries)) == state_of(self.catalog)

    @invariant()
    def names_and_ids_agree(self) -> None:
        topics = self.catalog.topics
        assert {topic.topic_id: topic for topic in topics.values()} == self.catalog.topics_by_id
        folded = [name.replace(".", "_") for name in topics]
        assert len(set(folded)) == len(folded)
        assert not set(self.catalog.topics_by_id) & set(self.catalog.deleting)


TestCatalog: Any = CatalogMachine.TestCase
TestCatalog.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
