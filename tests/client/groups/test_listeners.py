"""What a program is told about its partitions, in which order, and what becomes of its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.client.groups.driving import Driver, create_topic, new_group, run, until

from ottla import Broker
from ottla.client.model import OffsetAndMetadata
from ottla.client.state.group.membership import MemberState
from ottla.core.assignors.model import Assignment, RebalanceProtocol
from ottla.core.assignors.ranges import RangeAssignor
from ottla.core.assignors.sticky import CooperativeStickyAssignor
from ottla.errors import IllegalStateError, WakeupError
from ottla.model import TopicPartition


class Clumsy:
    """A listener that fails, each time, after it has written down that it was called."""

    def __init__(self, error: type[BaseException] = ZeroDivisionError) -> None:
        self.calls: list[str] = []
        self.error = error

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("revoked")
        raise self.error

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("assigned")
        raise self.error


def test_what_a_listener_raises_reaches_the_poll_after_the_assignment_was_taken(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        listener = Clumsy()
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, ottla_topic, 2)
            member.subscribe(ottla_topic, listener=listener)
            with pytest.raises(ZeroDivisionError):
                await member.join()
            assert member.has(2)
            await member.step()
            assert listener.calls == ["assigned"], "it is not called again for the same"
            member.member.request_rejoin("a test")
            with pytest.raises(ZeroDivisionError):
                await member.poll_until(lambda: False)
            assert listener.calls == ["assigned", "revoked"]
            assert not member.assigned, "eager: they are given up whatever the listener does"
            with pytest.raises(ZeroDivisionError):
                await member.poll_until(lambda: False)
            assert listener.calls == ["assigned", "revoked", "assigned"]
            with pytest.raises(ZeroDivisionError):
                await member.member.close(2000)

    run(test)


def test_a_wakeup_in_a_listener_interrupts_it_and_the_next_poll_goes_on(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    async def test() -> None:
        listener = Clumsy(WakeupError)
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, ottla_topic, 2)
            member.subscribe(ottla_topic, listener=listener)
            with pytest.raises(WakeupError):
                await member.join()
            member.subscriptions.listener = member.told
            await member.join()
            assert len(member.assigned) == 2

    run(test)


def test_a_poll_that_is_cancelled_in_a_listener_has_given_up_all_the_same(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    class Endless:
        def __init__(self) -> None:
            self.called = asyncio.Event()

        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            self.called.set()
            await asyncio.sleep(1000)

    async def test() -> None:
        listener = Endless()
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, ottla_topic, 2)
            member.subscribe(ottla_topic, listener=listener)
            await member.join()
            member.member.request_rejoin("a test")
            member.start_polling()
            await listener.called.wait()
            await member.stop_polling()
            assert not member.assigned, "others may have them soon"
            member.subscriptions.listener = member.told
            await member.poll_until(lambda: member.has(2))
            assert member.told.calls == [("assigned", (0, 1))]

    run(test)


@pytest.mark.parametrize("when", ["revoked", "assigned"])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_listener_may_unsubscribe(
    ottla_broker: Broker, ottla_topic: str, when: str, assignor: str
) -> None:
    class Leaving:
        def __init__(self, member: Driver) -> None:
            self.member = member

        async def leave(self, partitions: Sequence[TopicPartition]) -> None:
            self.member.subscriptions.listener = None
            await self.member.member.unsubscribe()
            self.member.subscriptions.unsubscribe()

    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), assignors=[assignor]) as member:
            await create_topic(member.network, ottla_topic, 2)
            listener = Leaving(member)
            setattr(listener, f"on_partitions_{when}", listener.leave)
            member.subscribe(ottla_topic, listener=listener)
            if when == "revoked":
                await member.join()
                if assignor == "cooperative-sticky":
                    member.subscriptions.subscribe_topics(["another"], listener)
                member.member.request_rejoin("a test")
            await member.poll_until(lambda: not member.subscriptions.uses_group)
            await member.step()
            assert member.member.state is MemberState.UNJOINED
            member.subscribe(ottla_topic)
            await member.poll_until(lambda: member.has(2))

    run(test)


def test_methods_may_be_missing_or_coroutines(ottla_broker: Broker, ottla_topic: str) -> None:
    class OnlyAssigned:
        seen: Any = None

        async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            self.seen = partitions

    async def test() -> None:
        listener = OnlyAssigned()
        async with Driver(ottla_broker.bootstrap_servers, new_group()) as member:
            await create_topic(member.network, ottla_topic, 2)
            member.subscribe(ottla_topic, listener=listener)
            await member.join()
            assert listener.seen == list(member.assigned)
            member.member.request_rejoin("a test")
            await member.poll_until(lambda: not member.is_stable)
            await member.join()

    run(test)


def test_offsets_can_be_committed_while_partitions_are_being_revoked(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    class Committing:
        def __init__(self, member: Driver) -> None:
            self.member = member

        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            await self.member.member.commit(dict.fromkeys(partitions, OffsetAndMetadata(42)))

    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with (
            Driver(servers, group, enable_auto_commit=False) as first,
            Driver(servers, group, enable_auto_commit=False) as second,
        ):
            await create_topic(first.network, ottla_topic, 2)
            first.subscribe(ottla_topic, listener=Committing(first))
            await first.join()
            first.start_polling()
            second.subscribe(ottla_topic)
            await second.poll_until(lambda: second.has(1))
            found = await second.member.committed(second.assigned)
            assert set(found.values()) == {OffsetAndMetadata(42)}

    run(test)


@pytest.mark.parametrize("built_in", [RangeAssignor, CooperativeStickyAssignor])
def test_an_assignor_of_ones_own_learns_the_assignment_before_the_listener(
    ottla_broker: Broker, ottla_topic: str, built_in: Any
) -> None:
    order: list[Any] = []

    class Custom(built_in):  # type: ignore[misc]
        name = "custom"

        def subscription_user_data(self, topics: Any) -> bytes | None:
            order.append(("subscription", tuple(topics)))
            return b"mine"

        def assign(self, cluster: Any, subscriptions: Any) -> dict[str, Assignment]:
            order.append(("assign", [each.user_data for each in subscriptions.values()]))
            plain = {
                member: type(each)(each.topics, None, each.owned_partitions, each.generation_id)
                for member, each in subscriptions.items()
            }
            shares = super().assign(cluster, plain)
            return {m: Assignment(share.partitions, b"yours") for m, share in shares.items()}

        def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
            order.append(("on_assignment", assignment.user_data, generation_id))

    class Listener:
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            order.append(("assigned", len(partitions)))

    async def test() -> None:
        servers = ottla_broker.bootstrap_servers
        async with Driver(servers, new_group(), assignors=[Custom()]) as member:
            await create_topic(member.network, ottla_topic, 2)
            member.subscribe(ottla_topic, listener=Listener())
            await member.join()
            while order.count(("subscription", (ottla_topic,))) > 1:
                order.remove(("subscription", (ottla_topic,)))  # the first join was without an id
            assert order == [
                ("subscription", (ottla_topic,)),
                ("assign", [b"mine"]),
                ("on_assignment", b"yours", 1),
                ("assigned", 2),
            ]

    run(test)


def test_an_assignor_that_fails_fails_the_poll_and_is_asked_again(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    class Moody(RangeAssignor):
        mood = "bad"

        def assign(self, cluster: Any, subscriptions: Any) -> dict[str, Assignment]:
            if self.mood == "bad":
                raise ZeroDivisionError
            return super().assign(cluster, subscriptions)

    async def test() -> None:
        servers, assignor = ottla_broker.bootstrap_servers, Moody()
        async with Driver(servers, new_group(), assignors=[assignor]) as member:
            await create_topic(member.network, ottla_topic, 2)
            member.subscribe(ottla_topic)
            with pytest.raises(ZeroDivisionError):
                await member.join()
            assignor.mood = "good"
            await member.join()
            assert len(member.assigned) == 2

    run(test)


def test_leaving_and_unsubscribing_revoke(ottla_broker: Broker, ottla_topic: str) -> None:
    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with Driver(servers, group) as stays, Driver(servers, group) as goes:
            await create_topic(stays.network, ottla_topic, 2)
            stays.subscribe(ottla_topic)
            stays.start_polling()
            goes.subscribe(ottla_topic)
            await goes.poll_until(lambda: goes.has(1) and stays.has(1))
            await goes.member.unsubscribe()
            goes.subscriptions.unsubscribe()
            assert goes.told.calls[-1][0] == "revoked"
            await until(lambda: stays.has(2))
            goes.subscribe(ottla_topic)
            await goes.poll_until(lambda: goes.has(1))

    run(test)


def test_a_cooperative_assignor_that_moves_what_others_have_fails_the_leaders_poll(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    class Hasty(RangeAssignor):
        name = "hasty"
        protocols = (RebalanceProtocol.COOPERATIVE,)

    async def test() -> None:
        servers, group = ottla_broker.bootstrap_servers, new_group()
        async with (
            Driver(servers, group, assignors=[Hasty()]) as leader,
            Driver(servers, group, assignors=[Hasty()]) as other,
        ):
            await leader.join_new(ottla_topic, 2)
            other.subscribe(ottla_topic)
            other.start_polling()
            with pytest.raises(IllegalStateError, match="cooperative"):
                await leader.poll_until(lambda: False)

    run(test)
