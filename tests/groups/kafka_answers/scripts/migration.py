"""Classic groups become consumer groups and back, with members of both protocols in one group meanwhile."""

from __future__ import annotations

from tests.groups.kafka_answers.brokers import DISABLED, DOWNGRADE, UPGRADE
from tests.groups.kafka_answers.members import ClassicConsumer, Committer, Consumer
from tests.groups.kafka_answers.script import script, script_on
from tests.groups.kafka_answers.stage import Stage, Topic


def classic_group(stage: Stage, topic: Topic, **details: object) -> ClassicConsumer:
    """A stable classic group of one member that has all three partitions."""
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic, **details)
    classic.sync({classic: {topic: [0, 1, 2]}})
    return classic


@script
def an_empty_classic_group_becomes_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = classic_group(stage, topic)
    classic.commit({topic: {0: 7}})
    classic.leave()
    stage.list_groups()
    member = Consumer(stage, "A")
    member.join(topic)
    stage.describe()
    stage.list_groups()
    member.fetch_offsets(None)


@script
def a_group_that_only_has_offsets_becomes_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    Committer(stage, "admin").commit({topic: {0: 7}})
    stage.list_groups()
    member = Consumer(stage, "A")
    member.join(topic)
    stage.list_groups()
    member.fetch_offsets({topic: [0]})


@script
def an_empty_consumer_group_becomes_a_classic_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A")
    member.join(topic)
    member.commit({topic: {0: 7}})
    member.leave()
    classic = ClassicConsumer(stage, "C")
    classic.join(topic)
    stage.list_groups()
    classic.join(topic)
    classic.sync({classic: {topic: [0, 1, 2]}})
    stage.list_groups()
    stage.describe_classic()
    stage.describe()
    classic.fetch_offsets(None)


@script
def a_member_of_the_new_protocol_upgrades_a_classic_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = classic_group(stage, topic)
    member = Consumer(stage, "A")
    member.join(topic)
    stage.list_groups()
    stage.describe()
    classic.beat()
    classic.join(topic, owned={topic: [0, 1, 2]})
    classic.sync()
    stage.describe()
    member.beat()
    classic.beat()
    classic.join(topic, owned={topic: [0]})
    classic.sync()
    member.beat()
    member.acknowledge()
    stage.describe()


@script
def a_classic_member_joins_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    member.acknowledge()
    classic.join(topic)
    stage.describe()
    classic.join(topic)
    classic.sync()
    classic.beat()
    member.beat()
    member.acknowledge()
    classic.beat()
    classic.join(topic)
    classic.sync()
    classic.beat()
    stage.describe()


@script
def older_versions_join_a_consumer_group_without_a_handshake(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join(topic, version=3)
    classic.sync(version=2)
    classic.beat(version=2)
    stage.describe()


@script
def the_last_new_member_leaves_and_the_group_is_classic_again(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    member.acknowledge()
    classic.join_fully(topic)
    classic.sync()
    member.leave()
    stage.list_groups()
    stage.describe_classic()
    stage.describe()
    classic.beat()
    classic.join(topic)
    classic.sync({classic: {topic: [0, 1]}})
    classic.beat()
    member.beat(epoch=5)
    member.leave()


@script
def the_only_classic_member_leaves_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    classic.sync()
    classic.leave()
    stage.describe()
    classic.beat()
    member.beat()


@script
def all_classic_and_new_members_leave(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    classic.leave((classic.member_id, None), ("A", None), ("nobody", None))
    stage.list_groups()
    stage.describe()


@script
def a_new_member_is_removed_by_a_classic_leave(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    first, second = Consumer(stage, "A", instance="i"), Consumer(stage, "B")
    first.join(topic)
    second.join(topic)
    admin = ClassicConsumer(stage, "admin")
    admin.leave(("", "j"), ("wrong", "i"), ("", "i"))
    admin.leave(("B", None), version=2)
    admin.leave(("B", None), version=2)
    stage.describe()


@script
def a_classic_leave_from_a_group_that_is_not_there(stage: Stage) -> None:
    classic = ClassicConsumer(stage, "C")
    classic.leave(("C", None))
    classic.leave(("C", None), version=2)


@script
def wrong_classic_heartbeats_in_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    classic.sync()
    classic.beat(generation=classic.generation + 1)
    classic.beat(generation=classic.generation - 1)
    classic.beat(member_id="nobody")
    classic.beat(member_id="A")
    classic.beat(instance="i")
    classic.beat()


@script
def wrong_classic_syncs_in_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    classic.sync(generation=classic.generation + 1)
    classic.sync(generation=classic.generation - 1)
    classic.sync(member_id="nobody")
    classic.sync(member_id="A")
    classic.sync(protocol="roundrobin")
    classic.sync(protocol_type="connect")
    classic.sync(protocol=None, protocol_type=None)
    classic.sync(version=3)
    classic.sync({classic: {topic: [0, 1]}})
    classic.sync()


@script
def a_sync_during_a_rebalance_of_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    member, classic, other = Consumer(stage, "A"), ClassicConsumer(stage, "C"), Consumer(stage, "B")
    member.join(topic)
    member.acknowledge()
    classic.join_fully(topic)
    other.join(topic)
    classic.sync()
    classic.beat()
    classic.join(topic)
    classic.sync()


@script
def a_classic_member_with_protocols_that_a_consumer_group_lacks(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join(topic, protocol_type="connect", member_id="C")
    classic.join(topic, protocols=("custom",))
    other = ClassicConsumer(stage, "D")
    other.join_fully(topic, protocols=("custom",))
    third = ClassicConsumer(stage, "E")
    third.join_fully(topic, protocols=("range",), member_id="E")
    stage.describe()


@script
def a_classic_subscription_that_cannot_be_read(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join(topic, subscription=b"no subscription", member_id="C")
    classic.join(topic, subscription=b"", member_id="C")
    stage.describe()


@script
def a_group_of_another_protocol_type_cannot_be_upgraded(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic, protocol_type="connect")
    Consumer(stage, "A").join(topic)
    classic.sync({classic: {topic: [0]}}, protocol_type="connect")
    Consumer(stage, "A").join(topic)
    Consumer(stage, "A").beat(epoch=1)
    Consumer(stage, "A").leave()
    stage.list_groups()
    classic.leave()
    Consumer(stage, "A").join(topic)
    stage.list_groups()


@script
def a_group_whose_subscriptions_cannot_be_read_cannot_be_upgraded(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic)
    classic.sync({classic: {topic: [0]}})
    heartbeat = Consumer(stage, "A")
    heartbeat.beat(epoch=3)
    heartbeat.leave()
    stage.describe()
    stage.list_groups()


@script
def a_group_that_is_joining_is_upgraded(stage: Stage) -> None:
    # Only the member that has it can keep it: nothing depends on the members' ids.
    topic = stage.topic("orders", 1)
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic)
    classic.sync({classic: {topic: [0]}})
    other = ClassicConsumer(stage, "D")
    other.join(topic)
    other.send_join(topic)
    stage.describe_classic()
    member = Consumer(stage, "A")
    member.join(topic)
    other.receive_join()
    classic.beat()
    stage.describe()
    stage.list_groups()


@script
def a_group_that_is_syncing_is_upgraded(stage: Stage) -> None:
    # Only the member that has it can keep it: nothing depends on the members' ids.
    topic = stage.topic("orders", 1)
    classic = ClassicConsumer(stage, "C")
    classic.join_fully(topic)
    classic.sync({classic: {topic: [0]}})
    other = ClassicConsumer(stage, "D")
    other.join(topic)
    other.send_join(topic)
    classic.join(topic)
    other.receive_join()
    other.send_sync()
    stage.describe_classic()
    member = Consumer(stage, "A")
    member.join(topic)
    other.receive_sync()
    classic.sync({classic: {topic: [0]}})
    stage.describe()


@script
def a_static_classic_member_is_replaced_by_a_new_one(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = ClassicConsumer(stage, "C", instance="i")
    classic.join_fully(topic)
    classic.sync({classic: {topic: [0, 1, 2]}})
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    stage.describe()
    classic.beat()
    classic.commit({topic: {0: 1}})
    member.acknowledge()


@script
def a_static_new_member_is_replaced_by_a_classic_one(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, other = Consumer(stage, "A", instance="i"), Consumer(stage, "B", instance="j")
    member.join(topic)
    member.acknowledge()
    other.join(topic)
    classic = ClassicConsumer(stage, "C", instance="i")
    classic.join(topic)
    stage.describe()
    classic.sync()
    member.beat()
    last = ClassicConsumer(stage, "D", instance="j")
    last.join(topic)
    stage.list_groups()
    stage.describe_classic()
    other.beat()
    last.sync({last: {topic: [0]}, classic: {topic: [1, 2]}})


@script
def a_static_classic_member_restarts_in_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C", instance="i")
    member.join(topic)
    classic.join(topic)
    classic.sync()
    old = classic.member_id
    again = ClassicConsumer(stage, "D", instance="i")
    again.join(topic)
    again.sync()
    classic.beat()
    classic.commit({topic: {0: 1}})
    classic.sync()
    classic.join(topic, member_id=old)
    classic.leave()
    stage.describe()


@script
def a_classic_member_changes_its_topics_in_a_consumer_group(stage: Stage) -> None:
    orders, others = stage.topic("orders", 2), stage.topic("others", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(orders)
    member.acknowledge()
    classic.join_fully(orders)
    classic.sync()
    classic.join(others)
    classic.sync()
    stage.describe()
    classic.join(others)
    stage.describe()


@script
def a_classic_member_becomes_a_new_one_under_its_id(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = classic_group(stage, topic)
    member = Consumer(stage, "A")
    member.member_id = classic.member_id
    member.join(topic)
    stage.describe()
    classic.beat()
    classic.join(topic)


@script
def a_classic_member_uses_the_new_heartbeat_without_joining(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    classic.sync()
    both = Consumer(stage, "B")
    both.member_id = classic.member_id
    both.beat(epoch=classic.generation)
    stage.describe()
    classic.beat()


@script
def subscription_versions_of_classic_members(stage: Stage) -> None:
    topic = stage.topic("orders", 4)
    member = Consumer(stage, "A")
    member.join(topic)
    for version in range(4):
        classic = ClassicConsumer(stage, f"C{version}")
        classic.join_fully(topic, subscription_version=version)
        classic.sync()


@script
def a_mixed_group_is_described_and_listed(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    stage.describe(version=0)
    stage.describe(version=1)
    stage.describe_classic(version=5)
    stage.describe_classic(version=6)
    stage.list_groups(types=["classic"])
    stage.list_groups(types=["consumer"])
    stage.delete_group()


@script_on(DISABLED)
def without_migration_a_classic_group_is_not_upgraded(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = classic_group(stage, topic)
    Consumer(stage, "A").join(topic)
    classic.beat()
    classic.leave()
    Consumer(stage, "A").join(topic)
    stage.list_groups()


@script_on(DISABLED)
def without_migration_a_classic_member_cannot_join_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join(topic)
    classic.join(topic, member_id="C")
    member.leave()
    classic.join_fully(topic)
    stage.list_groups()


@script_on(UPGRADE)
def upgrade_only_allows_the_upgrade(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = classic_group(stage, topic)
    member = Consumer(stage, "A")
    member.join(topic)
    stage.list_groups()
    classic.join(topic)
    classic.sync()
    member.leave()
    stage.list_groups()
    stage.describe()
    classic.beat()


@script_on(UPGRADE)
def upgrade_only_lets_classic_members_join_a_consumer_group(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    classic.sync()
    member.leave()
    classic.beat()
    stage.describe()


@script_on(DOWNGRADE)
def downgrade_only_does_not_allow_the_upgrade(stage: Stage) -> None:
    topic = stage.topic("orders")
    classic = classic_group(stage, topic)
    Consumer(stage, "A").join(topic)
    classic.beat()
    stage.list_groups()


@script_on(DOWNGRADE)
def downgrade_only_allows_the_downgrade(stage: Stage) -> None:
    topic = stage.topic("orders", 2)
    member, classic = Consumer(stage, "A"), ClassicConsumer(stage, "C")
    member.join(topic)
    classic.join_fully(topic)
    classic.sync()
    member.leave()
    stage.list_groups()
    classic.beat()


@script_on(UPGRADE)
def without_downgrade_a_static_member_is_replaced_within_the_group(stage: Stage) -> None:
    topic = stage.topic("orders")
    member = Consumer(stage, "A", instance="i")
    member.join(topic)
    classic = ClassicConsumer(stage, "C", instance="i")
    classic.join(topic)
    classic.sync()
    stage.describe()
    stage.list_groups()
