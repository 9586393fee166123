"""Members that are silent too long: sessions and rebalance timeouts."""

from __future__ import annotations

from tests.groups.kafka_answers.members import ClassicConsumer, Consumer
from tests.groups.kafka_answers.script import script
from tests.groups.kafka_answers.stage import Stage

SESSION_MS = 2000
SHORT = {"consumer.session.timeout.ms": str(SESSION_MS), "consumer.heartbeat.interval.ms": "500"}
LATE_MS = 2600


@script
def a_silent_member_is_removed(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config(SHORT)
    member = Consumer(stage, "A")
    member.join(topic)
    stage.wait(LATE_MS)
    stage.describe()
    member.beat()
    member.join(topic)


@script
def heartbeats_keep_a_session(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config(SHORT)
    member = Consumer(stage, "A")
    member.join(topic)
    for _ in range(3):
        stage.wait(900)
        member.beat()
    stage.describe()


@script
def the_partitions_of_a_silent_member_go_to_the_others(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    stage.set_config(SHORT)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic)
    first.acknowledge()
    second.join(topic)
    first.beat()
    first.acknowledge()
    second.beat()
    stage.wait(1300)
    second.beat()
    stage.wait(1300)
    second.beat()
    stage.describe()
    first.beat()


@script
def a_refused_heartbeat_keeps_no_session(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config(SHORT)
    member = Consumer(stage, "A")
    member.join(topic)
    stage.wait(1400)
    member.beat(epoch=77)
    stage.wait(1200)
    member.beat()


@script
def a_commit_keeps_no_session(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config(SHORT)
    member = Consumer(stage, "A")
    member.join(topic)
    stage.wait(1400)
    member.commit({topic: {0: 1}})
    stage.wait(1200)
    member.commit({topic: {0: 2}})


@script
def a_static_member_that_is_away_too_long_is_removed(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config(SHORT)
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    member.leave_for_a_while()
    stage.wait(LATE_MS)
    stage.describe()
    Consumer(stage, "B", instance="i").join(topic)


@script
def the_session_of_a_replaced_static_member_does_not_end_its_successor(stage: Stage) -> None:
    topic = stage.topic("orders")
    stage.set_config(SHORT)
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    stage.wait(1400)
    member.leave_for_a_while()
    again = Consumer(stage, "B", instance="i")
    again.join(topic)
    stage.wait(1400)
    again.beat()
    stage.describe()


@script
def a_member_that_does_not_revoke_in_time_is_removed(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic, rebalance_timeout_ms=1000)
    first.acknowledge()
    second.join(topic)
    first.beat()
    stage.wait(500)
    first.beat()
    stage.wait(1000)
    stage.describe()
    first.beat()
    second.beat()


@script
def a_member_that_revokes_in_time_stays(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic, rebalance_timeout_ms=1500)
    first.acknowledge()
    second.join(topic)
    first.beat()
    stage.wait(500)
    first.acknowledge()
    stage.wait(2000)
    first.beat()
    second.beat()
    stage.describe()


@script
def a_rebalance_timeout_of_zero_removes_at_once(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic, rebalance_timeout_ms=0)
    first.acknowledge()
    second.join(topic)
    first.beat()
    stage.wait(300)
    first.acknowledge()
    second.beat()


@script
def a_rebalance_timeout_can_be_changed(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A"), Consumer(stage, "B")
    first.join(topic, rebalance_timeout_ms=500)
    first.acknowledge()
    first.beat(rebalance_timeout_ms=60_000)
    second.join(topic)
    first.beat()
    stage.wait(1500)
    first.acknowledge()
    second.beat()


@script
def the_default_session_is_forty_five_seconds(stage: Stage) -> None:
    stage.describe_config("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")


@script
def the_session_timeout_of_a_group_can_be_changed(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    stage.set_config(SHORT)
    # From the next heartbeat on.
    member.beat()
    stage.wait(LATE_MS)
    member.beat()


@script
def a_silent_classic_member_of_a_consumer_group_is_removed(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    member.acknowledge()
    classic.join_fully(topic, session_timeout_ms=1000)
    classic.sync()
    member.beat()
    member.acknowledge()
    stage.wait(1600)
    stage.describe()
    classic.beat()
    member.beat()


@script
def a_classic_member_that_does_not_sync_in_time_is_removed(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    member.acknowledge()
    classic.join_fully(topic, session_timeout_ms=20_000, rebalance_timeout_ms=1000)
    stage.wait(1600)
    stage.describe()
    classic.sync()


@script
def a_classic_member_that_does_not_rejoin_in_time_is_removed(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    classic = ClassicConsumer(stage, "C")
    member, other = Consumer(stage, "A"), Consumer(stage, "B")
    member.join(topic)
    member.acknowledge()
    # A consumer group takes a classic member's own id.
    classic.member_id = "C"
    classic.join(topic, session_timeout_ms=20_000, rebalance_timeout_ms=1000)
    classic.sync()
    other.join(topic)
    classic.beat()
    stage.wait(1600)
    stage.describe()
    classic.beat()


@script
def the_last_new_member_falls_silent_and_the_group_is_classic_again(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    stage.set_config(SHORT)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    member.acknowledge()
    classic.join_fully(topic, session_timeout_ms=30_000)
    classic.sync()
    stage.wait(LATE_MS)
    stage.list_groups()
    stage.describe_classic()
    classic.beat()
