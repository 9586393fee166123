"""What the client makes of metadata answers, and when it asks again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.state.backoff import Backoff
from ottla.client.state.metadata import MetadataState
from ottla.errors import ErrorCode
from ottla.model import NO_LEADER
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

RETRY_MS, MAX_AGE_MS = 100.0, 300_000.0
ID, OTHER_ID = UUID(int=7), UUID(int=8)


def new_state(**options: Any) -> MetadataState:
    return MetadataState(max_age_ms=MAX_AGE_MS, backoff=Backoff(RETRY_MS, 1000), **options)


def partition(index: int, leader: int = 1, epoch: int = 0) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1],
        isr_nodes=[1],
    )


def topic(
    name: str, *partitions: MetadataResponsePartition, error: int = 0, topic_id: UUID = ID
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, partitions=list(partitions)
    )


def answer(
    *topics: MetadataResponseTopic, cluster_id: str = "c", nodes: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=id, host="h", port=9000 + id) for id in nodes],
        cluster_id=cluster_id,
        topics=list(topics),
    )


def ask(state: MetadataState, response: MetadataResponse, now_ms: float = 0.0) -> None:
    state.apply(state.next_request(now_ms), response, now_ms, 0.5)


class TestWhatIsKnown:
    def test_a_topic_is_known_with_its_leaders(self) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", partition(1, leader=2), partition(0), partition(2, -1))))
        assert [state.cluster.leader_of("t", index) for index in range(4)] == [1, 2, -1, NO_LEADER]
        assert state.cluster.available("t") == (0, 1)
        assert state.cluster.topic_name(ID) == "t"
        assert [info.leader and info.leader.id for info in state.cluster.partitions_for("t")] == [
            *(1, 2, None),
        ]

    def test_a_topic_that_vanished_does_not_look_alive(self) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", partition(0))))
        ask(state, answer(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
        assert "t" not in state.cluster.topics
        assert state.cluster.errors["t"] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize("indexes", [(0, 2), (1,), (0, 0), (-1, 0)])
    def test_an_answer_that_lacks_partitions_is_asked_for_again(
        self, indexes: tuple[int, ...]
    ) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", *map(partition, indexes))))
        assert "t" not in state.cluster.topics
        assert 0 < state.due_in_ms(0) <= 1.2 * RETRY_MS

    def test_topics_that_were_not_asked_for_stay_known(self) -> None:
        state = new_state()
        state.want("a", 0)
        request = state.next_request(0)
        state.want("b", 0)
        state.apply(request, answer(topic("a", partition(0))), 0, 0.5)
        assert list(state.cluster.topics) == ["a"]
        assert state.due_in_ms(0) == 0

    @given(st.lists(st.tuples(st.integers(1, 5), st.integers(-1, 6)), min_size=1))
    def test_leader_epochs_do_not_go_back(self, answers: list[tuple[int, int]]) -> None:
        """Brokers that are behind answer too (KIP-320)."""
        state = new_state()
        state.want("t", 0)
        newest = -1
        for leader, epoch in answers:
            ask(state, answer(topic("t", partition(0, leader, epoch)), nodes=(1, 2, 3, 4, 5)))
            found = state.cluster.topics["t"].partitions[0]
            if epoch == -1 or epoch >= newest:
                assert (found.leader, found.leader_epoch) == (leader, epoch)
                newest = epoch
            else:
                assert found.leader_epoch == newest

    @pytest.mark.parametrize(
        ("topic_id", "cluster_id"), [(OTHER_ID, "c"), (ID, "another"), (OTHER_ID, "another")]
    )
    def test_a_topic_that_was_made_anew_begins_its_epochs_again(
        self, topic_id: UUID, cluster_id: str
    ) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", partition(0, leader=1, epoch=9))))
        again = topic("t", partition(0, leader=2, epoch=0), topic_id=topic_id)
        ask(state, answer(again, cluster_id=cluster_id))
        assert state.cluster.leader_of("t", 0) == 2

    def test_a_snapshot_does_not_change(self) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", partition(0, leader=1))))
        before = state.cluster
        ask(state, answer(topic("t", partition(0, leader=2, epoch=1))))
        assert (before.leader_of("t", 0), state.cluster.leader_of("t", 0)) == (1, 2)

    def test_an_error_of_a_topic_is_news_when_it_lasts_and_once(self) -> None:
        state = new_state()
        state.want("t", 0)
        missing = answer(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        there = answer(topic("t", partition(0)))
        told = [
            state.apply(state.next_request(0), each, 0, 0.5)
            for each in (missing, there, missing, missing, missing, there, missing, missing)
        ]
        news = [("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text)]
        assert told == [[], [], [], news, [], [], [], news]


class TestLeadersThatBrokersTell:
    """KIP-951."""

    def test_a_newer_epoch_is_believed(self) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", partition(0, leader=1, epoch=3))))
        assert state.update_leader("t", 0, 2, 4, {})
        assert state.cluster.leader_of("t", 0) == 2

    @pytest.mark.parametrize(
        ("name", "index", "leader", "epoch"),
        [
            ("t", 0, 2, 3),
            ("t", 0, 2, 2),
            ("t", 0, -1, 9),
            ("t", 0, 7, 9),
            ("t", 5, 2, 9),
            ("u", 0, 2, 9),
        ],
    )
    def test_what_is_old_or_makes_no_sense_is_not(
        self, name: str, index: int, leader: int, epoch: int
    ) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", partition(0, leader=1, epoch=3))))
        before = state.cluster
        assert not state.update_leader(name, index, leader, epoch, {})
        assert state.cluster is before


class TestWhenToAsk:
    def test_at_once_in_the_beginning_and_after_the_age_limit(self) -> None:
        state = new_state()
        assert state.due_in_ms(0) == 0
        ask(state, answer(), 1000)
        assert state.due_in_ms(1000) == MAX_AGE_MS
        assert state.due_in_ms(1000 + MAX_AGE_MS) == 0

    def test_a_request_waits_for_the_pause_between_answers(self) -> None:
        state = new_state()
        ask(state, answer(), 1000)
        state.request_update()
        assert state.due_in_ms(1000) == RETRY_MS

    def test_a_new_topic_does_not_wait(self) -> None:
        state = new_state()
        ask(state, answer(), 1000)
        state.want("t", 1000)
        assert state.due_in_ms(1000) == 0

    def test_a_request_while_one_is_under_way_is_not_lost(self) -> None:
        state = new_state()
        request = state.next_request(0)
        state.request_update()
        state.apply(request, answer(), 0, 0.5)
        assert state.due_in_ms(0) == RETRY_MS

    def test_failures_pause_longer_and_longer_and_success_forgets_them(self) -> None:
        state = new_state()
        pauses = []
        for _ in range(6):
            state.next_request(0)
            state.failed(0, 0.5)
            pauses.append(state.due_in_ms(0))
        assert pauses == [100, 200, 400, 800, 1000, 1000]
        ask(state, answer())
        state.failed(0, 0.5)
        assert state.due_in_ms(0) == 100

    def test_a_new_topic_waits_for_the_pause_after_a_failure(self) -> None:
        state = new_state()
        state.failed(0, 0.5)
        state.want("t", 0)
        assert state.due_in_ms(0) == RETRY_MS

    def test_a_new_topic_does_not_wait_for_one_that_is_not_there(self) -> None:
        state = new_state()
        state.want("nowhere", 0)
        missing = topic("nowhere", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for _ in range(5):
            ask(state, answer(missing))
        assert state.due_in_ms(0) > 500
        request = state.next_request(0)
        state.want("t", 0)
        assert state.due_in_ms(0) == 0
        state.apply(request, answer(missing), 0, 0.5)
        assert state.due_in_ms(0) == 0, "nor if it came while a request was under way"
        ask(state, answer(missing, topic("t", partition(0))))
        assert state.due_in_ms(0) > 500

    def test_a_broker_that_says_nothing_of_a_topic_is_not_asked_without_pause(self) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer())
        assert state.due_in_ms(0) > 0

    @pytest.mark.parametrize("found", [topic("t", partition(0, -1)), topic("t", error=5)])
    def test_what_may_pass_is_asked_for_again_with_pauses(
        self, found: MetadataResponseTopic
    ) -> None:
        state = new_state()
        state.want("t", 0)
        pauses = []
        for _ in range(3):
            ask(state, answer(found))
            pauses.append(state.due_in_ms(0))
        assert pauses == [100, 200, 400]

    def test_what_does_not_pass_is_not(self) -> None:
        state = new_state()
        state.want("t", 0)
        ask(state, answer(topic("t", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        assert state.due_in_ms(0) == MAX_AGE_MS

    def test_topics_that_nobody_uses_are_dropped(self) -> None:
        state = new_state(max_idle_ms=1000)
        state.want("a", 0)
        state.want("b", 600)
        request = state.next_request(1500)
        assert [each.name for each in request.topics or ()] == ["b"]
        assert state.wanted == ("b",)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["want", "request", "failed", "answered", "partial"]),
                st.floats(0, 5000),
            )
        )
    )
    def test_there_is_always_a_next_time_and_never_a_negative_wait(
        self, steps: list[tuple[str, float]]
    ) -> None:
        state, now_ms = new_state(), 0.0
        for step, later_ms in steps:
            now_ms += later_ms
            if step == "want":
                state.want(f"t{int(later_ms)}", now_ms)
            elif step == "request":
                state.request_update()
            elif step == "failed":
                state.next_request(now_ms)
                state.failed(now_ms, 0.5)
            else:
                known = [topic(name, partition(0)) for name in state.wanted]
                ask(state, answer(*known[: None if step == "answered" else 1]), now_ms)
            assert 0 <= state.due_in_ms(now_ms) <= MAX_AGE_MS
            assert state.due_in_ms(now_ms + MAX_AGE_MS) == 0
