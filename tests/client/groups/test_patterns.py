"""Subscriptions by pattern, and by several topics in one group."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.client.groups.driving import Driver, create_topic, new_group, run

from ottla import Broker
from ottla.core.assignors.model import Assignment, Cluster, Subscription
from ottla.core.assignors.ranges import RangeAssignor
from ottla.model import TopicPartition


def topics(driver: Driver) -> set[str]:
    return {partition.topic for partition in driver.assigned}


def test_topics_that_match_come_by_themselves(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str]
) -> None:
    prefix = ottla_topic_name()

    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), metadata_max_age_ms=100) as member:
            await create_topic(member.network, f"{prefix}.a", 1)
            await create_topic(member.network, f"not-{prefix}.a", 1)
            member.subscribe_pattern(f"{prefix}.*")
            await member.poll_until(lambda: topics(member) == {f"{prefix}.a"})
            await create_topic(member.network, f"{prefix}.b", 2)
            await member.poll_until(lambda: member.has(3))
            assert topics(member) == {f"{prefix}.a", f"{prefix}.b"}

    run(test)


def test_a_pattern_skips_internal_topics_unless_it_is_told_not_to(ottla_broker: Broker) -> None:
    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group()) as member:
            member.subscribe_pattern("__consumer_.*")
            await member.join()
            assert topics(member) == set()
        async with Driver(servers, new_group(), exclude_internal_topics=False) as member:
            member.subscribe_pattern("__consumer_.*")
            await member.poll_until(lambda: topics(member) == {"__consumer_offsets"})

    run(test)


def test_the_leader_shares_topics_that_only_others_want(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str]
) -> None:
    ours, theirs = ottla_topic_name(), ottla_topic_name()

    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group) as leader, Driver(servers, group) as other:
            await create_topic(leader.network, ours, 1)
            await create_topic(leader.network, theirs, 2)
            leader.subscribe(ours)
            await leader.join()
            leader.start_polling()
            other.subscribe(theirs)
            await other.poll_until(lambda: other.has(2) and leader.has(1))
            assert topics(other) == {theirs}
            assert topics(leader) == {ours}

    run(test)


def test_a_changed_subscription_is_joined_with(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str]
) -> None:
    first, second = ottla_topic_name(), ottla_topic_name()

    async def test() -> None:
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, first, 1)
            await create_topic(member.network, second, 2)
            member.subscribe(first)
            await member.join()
            member.subscribe(second)
            await member.poll_until(lambda: member.has(2))
            assert topics(member) == {second}

    run(test)


def test_a_topic_that_does_not_exist_yet_is_shared_when_it_does(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), metadata_max_age_ms=100) as member:
            member.network.metadata._creates_topics = False
            member.subscribe(ottla_topic)
            await member.join()
            assert member.assigned == ()
            await create_topic(member.network, ottla_topic, 2)
            await member.poll_until(lambda: member.has(2))

    run(test)


class Willful(RangeAssignor):
    """Gives its only member something more, as often as it is told to."""

    name = "willful"

    def __init__(self) -> None:
        self.extra: list[TopicPartition] = []
        self.assigned = 0

    def assign(
        self, cluster: Cluster, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        self.assigned += 1
        shares = super().assign(cluster, subscriptions)
        return {
            member: Assignment((*share.partitions, *self.extra)) for member, share in shares.items()
        }


def test_a_topic_of_the_pattern_that_only_the_leader_has_seen_is_taken(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str]
) -> None:
    prefix = ottla_topic_name()

    async def test() -> None:
        assignor = Willful()
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), assignors=[assignor]) as member:
            await create_topic(member.network, f"{prefix}.a", 1)
            member.subscribe_pattern(f"{prefix}.*")
            await member.poll_until(lambda: member.has(1))
            # As if its metadata were old.
            member.subscriptions.subscribe_from_pattern([f"{prefix}.a"])
            await create_topic(member.network, f"{prefix}.b", 1)
            member.member._topics.is_fresh = lambda: True  # type: ignore[method-assign]
            assignor.extra = [TopicPartition(f"{prefix}.b", 0)]
            member.member.request_rejoin("a test")
            await member.poll_until(lambda: member.has(2))
            assert f"{prefix}.b" in member.subscriptions.subscription()

    run(test)


def test_an_assignment_that_was_not_subscribed_to_is_not_taken(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str]
) -> None:
    wanted, unwanted = ottla_topic_name(), ottla_topic_name()

    async def test() -> None:
        assignor = Willful()
        assignor.extra = [TopicPartition(unwanted, 0)]
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), assignors=[assignor]) as member:
            await create_topic(member.network, wanted, 1)
            await create_topic(member.network, unwanted, 1)
            member.subscribe(wanted)
            await member.poll_until(lambda: assignor.assigned >= 2)
            assert not any(call == "assigned" for call, _ in member.told.calls)
            assignor.extra = []
            await member.poll_until(lambda: member.has(1))
            assert topics(member) == {wanted}

    run(test)


def test_a_pattern_is_matched_against_new_metadata_before_each_join(
    ottla_broker: Broker, ottla_topic_name: Callable[[], str]
) -> None:
    prefix = ottla_topic_name()

    async def test() -> None:
        # It would not look by itself for minutes.
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, f"{prefix}.a", 1)
            member.subscribe_pattern(f"{prefix}.*")
            await member.poll_until(lambda: member.has(1))
            await create_topic(member.network, f"{prefix}.b", 1)
            calls = len(member.told.calls)
            member.member.request_rejoin("a test")
            await member.poll_until(lambda: len(member.told.calls) > calls + 1)
            assert topics(member) == {f"{prefix}.a", f"{prefix}.b"}, "with the first rejoin"

    run(test)
