"""The essential tests of group members, against Apache Kafka."""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from tests.apache_kafka.conftest import kafka_address, kafka_jars
from tests.client.groups import (
    test_joining,
    test_listeners,
    test_liveness,
    test_offsets,
    test_patterns,
    test_with_confluent,
)

from ottla.core.assignors.ranges import RangeAssignor

__all__ = ["kafka_address", "kafka_jars"]

share = test_with_confluent.test_partitions_are_shared_with_librdkafka
own_assignor = test_listeners.test_an_assignor_of_ones_own_learns_the_assignment_before_the_listener
ESSENTIAL: list[Callable[..., None]] = [
    test_joining.test_a_lone_member_gets_all_partitions,
    partial(test_joining.test_an_eager_member_gives_all_up_before_it_shares, assignor="sticky"),
    test_joining.test_a_cooperative_member_gives_up_only_what_moves,
    test_joining.test_new_partitions_are_shared_by_themselves,
    test_joining.test_what_a_member_had_goes_to_others_when_it_leaves,
    partial(own_assignor, built_in=RangeAssignor),
    test_listeners.test_offsets_can_be_committed_while_partitions_are_being_revoked,
    test_listeners.test_leaving_and_unsubscribing_revoke,
    test_liveness.test_a_member_that_nobody_polls_leaves_and_says_so,
    test_liveness.test_a_static_member_keeps_its_partitions_over_a_restart,
    test_liveness.test_a_static_leader_that_came_back_goes_on_watching_its_topics,
    test_liveness.test_a_static_member_that_is_replaced_is_fenced_for_good,
    test_offsets.test_committed_offsets_come_back_with_metadata_and_epoch,
    partial(
        test_offsets.test_offsets_are_committed_by_a_consumer_that_assigns_itself, knows_topic=True
    ),
    partial(
        test_offsets.test_offsets_are_committed_by_a_consumer_that_assigns_itself, knows_topic=False
    ),
    test_offsets.test_callbacks_come_in_the_order_of_the_commits_and_in_a_poll,
    test_offsets.test_automatic_commits_take_what_earlier_polls_returned,
    test_offsets.test_a_rebalance_commits_first,
    test_offsets.test_a_commit_during_a_rebalance_says_poll_first,
    test_offsets.test_errors_of_commits_name_the_partition,
    test_patterns.test_topics_that_match_come_by_themselves,
    test_patterns.test_the_leader_shares_topics_that_only_others_want,
    partial(share, assignor="range", leader="ours"),
    partial(share, assignor="cooperative-sticky", leader="theirs"),
]


def test_apache_kafka_passes_the_same_tests(kafka_address: str) -> None:
    failed: dict[str, list[str]] = {}
    for test in ESSENTIAL:
        try:
            test(**_arguments(test, kafka_address))
        except Exception:
            failed[repr(test)] = traceback.format_exc().splitlines()
    assert not failed, "\n".join(line for lines in failed.values() for line in lines)


def _arguments(test: Callable[..., None], address: str) -> dict[str, Any]:
    """What the fixtures would give."""

    def new_topic() -> str:
        return f"topic-{uuid.uuid4().hex[:12]}"

    function = test.func if isinstance(test, partial) else test
    given = {
        "ottla_broker": SimpleNamespace(bootstrap_servers=address),
        "ottla_topic": new_topic(),
        "ottla_topic_name": new_topic,
    }
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return {name: given[name] for name in names if name in given}
