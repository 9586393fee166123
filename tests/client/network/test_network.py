"""Finding brokers and following metadata, with brokers that come, go and move."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from tests.client.network.conftest import Run
from tests.client.network.fake_broker import (
    HEARTBEAT,
    FakeBroker,
    broker_at,
    network_to,
    refusing_address,
    running,
    until,
)

from ottla.client.aio.network.coordinator_cache import KEY_GROUP, KEY_TRANSACTION
from ottla.client.state.metadata import ClusterMetadata
from ottla.errors import ErrorCode, RetriableError, TimedOutError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
)


def test_a_topic_is_known_once_the_broker_told_it(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address) as network:
            assert len((await network.topic("t", 5000)).partitions) == 1
            assert network.cluster.leader_of("t", 0) == 0
            assert network.cluster.cluster_id == "fake"

    run(main())


def test_a_topic_that_is_not_there_is_named_in_the_error(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address) as network:
            with pytest.raises(TimedOutError, match=r"Topic no does not exist.*UNKNOWN_TOPIC"):
                await network.topic("no", 1000)

    run(main())


def test_a_dead_server_among_several_does_not_matter(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        with refusing_address() as dead:
            async with running(broker):
                for _ in range(4):
                    async with network_to(dead, broker.address) as network:
                        await network.updated(5000)
                        assert list(network.cluster.nodes) == [0]

    run(main())


def test_a_server_that_does_not_accept_does_not_keep_the_others_waiting(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The servers are tried in the order in which they are given.
    monkeypatch.setattr("random.shuffle", lambda candidates: None)

    async def main() -> None:
        broker = FakeBroker()
        # Its backlog is full, so that attempts to connect get no answer.
        with socket.socket() as silent, socket.socket() as filler, socket.socket() as more:
            silent.bind(("127.0.0.1", 0))
            silent.listen(0)
            for each in (filler, more):
                each.setblocking(False)
                each.connect_ex(silent.getsockname())
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            async with running(broker), network_to(address, broker.address) as network:
                await network.updated(5000)

    run(main())


def test_when_nobody_is_there_the_error_says_who_was_asked(run: Run) -> None:
    async def main() -> None:
        with refusing_address() as address:
            async with network_to(address) as network:
                with pytest.raises(TimedOutError, match=address):
                    await network.updated(100)
                with pytest.raises(RetriableError, match="refused"):
                    await network.any_node()

    run(main())


def test_the_bootstrap_connection_becomes_that_of_its_node(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            await network.call(0, HEARTBEAT)
            assert broker.connections == 1

    run(main())


def test_many_callers_share_one_attempt(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            broker.drop_connections()
            await until(lambda: network.connection_now(0) is None)
            await asyncio.gather(*(network.call(0, HEARTBEAT) for _ in range(50)))
            assert broker.connections == 2

    run(main())


def test_a_caller_that_gives_up_does_not_end_the_attempt_of_others(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        gate = asyncio.Event()

        async def late(request: Any, version: int) -> Any:
            await gate.wait()
            return broker._api_versions(request, version)

        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            broker.drop_connections()
            await until(lambda: network.connection_now(0) is None)
            broker.answers[ApiVersionsRequest] = late
            calls = [asyncio.create_task(network.call(0, HEARTBEAT)) for _ in range(3)]
            await until(lambda: len(broker.asked_for(ApiVersionsRequest)) == 2)
            calls[0].cancel()
            gate.set()
            await asyncio.gather(*calls[1:])
            assert calls[0].cancelled()

    run(main())


def test_a_cancelled_call_leaves_the_order_of_answers_intact(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        gate = asyncio.Event()
        served = 0

        async def count(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
            nonlocal served
            served += 1
            await gate.wait()
            return HeartbeatResponse(error_code=request.generation_id)

        broker.answers[HeartbeatRequest] = count
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            calls = [
                asyncio.create_task(
                    network.call(
                        0, HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
                    )
                )
                for number in range(1, 6)
            ]
            await until(lambda: served == 1)
            calls[0].cancel()
            calls[2].cancel()
            gate.set()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            kept = [
                answer.error_code for answer in answers if isinstance(answer, HeartbeatResponse)
            ]
            assert kept == [2, 4, 5]
            assert broker.connections == 1

    run(main())


def test_a_request_that_is_not_answered_in_time_ends_the_connection(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        broker.answers[HeartbeatRequest] = lambda request, version: None
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            connection = await network.connection(0)
            with pytest.raises(TimedOutError, match=r"Heartbeat was not answered.*broker=0 at"):
                await network.call(0, HEARTBEAT, timeout_ms=50)
            assert connection.closed is not None
            assert await network.connection(0) is not connection

    run(main())


def test_requests_in_flight_fail_as_retriable_when_the_broker_dies(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        broker.answers[HeartbeatRequest] = lambda request, version: None
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            call = asyncio.create_task(network.call(0, HEARTBEAT))
            await until(lambda: broker.asked_for(HeartbeatRequest))
            broker.drop_connections()
            with pytest.raises(RetriableError, match="api=Heartbeat, broker=0 at 127"):
                await call

    run(main())


def test_a_broker_that_comes_back_on_its_port_is_found_again(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            await broker.stop()
            with pytest.raises(RetriableError):
                await network.call(0, HEARTBEAT)
            await broker.start()
            assert await network.any_node() in (0, -1)
            network.request_update()
            await network.updated(5000)
            await network.call(0, HEARTBEAT)

    run(main())


def test_attempts_to_reconnect_pause_longer_and_longer(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with (
            running(broker),
            network_to(broker.address, **{"reconnect.backoff.max.ms": 100}) as network,
        ):
            await network.updated(5000)
            await broker.stop()
            loop = asyncio.get_running_loop()
            waits = []
            for _ in range(6):
                start = loop.time()
                with pytest.raises(RetriableError):
                    await network.connection(0)
                waits.append(loop.time() - start)
            await broker.start()
            assert sum(waits[3:]) > 0.15

    run(main())


def test_a_broker_whose_address_changed_is_reached_at_the_new_one(run: Run) -> None:
    async def main() -> None:
        old, new = FakeBroker(), FakeBroker()
        async with running(old, new), network_to(old.address) as network:
            await network.updated(5000)
            old.brokers = [broker_at(0, new.port)]
            network.request_update()
            await network.updated(5000)
            await network.call(0, HEARTBEAT)
            assert new.asked_for(HeartbeatRequest)
            assert not old.asked_for(HeartbeatRequest)

    run(main())


def test_a_broker_that_knows_no_brokers_yet_is_not_believed(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        good = broker.answers[MetadataRequest]
        async with running(broker), network_to(broker.address) as network:
            await network.topic("t", 5000)
            asked = len(broker.asked)
            broker.answers[MetadataRequest] = lambda request, version: MetadataResponse(
                brokers=[], topics=[]
            )
            network.request_update()
            await until(lambda: len(broker.asked) > asked + 2)
            assert network.cluster.leader_of("t", 0) == 0
            broker.answers[MetadataRequest] = good
            await network.updated(5000)

    run(main())


def test_a_broker_that_left_is_an_error_that_says_so(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
            with pytest.raises(RetriableError, match="Broker 7 is not in the cluster"):
                await network.call(7, HEARTBEAT)

    run(main())


class TestStartingAgain:
    """KIP-899 and KIP-1102."""

    def test_bootstrap_servers_lead_to_brokers_that_replaced_all_known_ones(self, run: Run) -> None:
        async def main() -> None:
            old, new, entry = FakeBroker(node_id=1), FakeBroker(node_id=2), FakeBroker(node_id=9)
            async with running(new, entry), running(old):
                entry.brokers = [broker_at(1, old.port)]
                async with network_to(entry.address) as network:
                    await network.updated(5000)
                    await network.call(1, HEARTBEAT)
                    entry.brokers = [broker_at(2, new.port)]
                    await old.stop()
                    await until(lambda: 2 in network.cluster.nodes)
                    await network.call(2, HEARTBEAT)
                    await old.start()

        run(main())

    def test_a_connection_that_was_lost_is_made_again_before_others_are_asked(
        self, run: Run
    ) -> None:
        async def main() -> None:
            known, entry = FakeBroker(node_id=1), FakeBroker(node_id=9)
            async with running(entry, known):
                entry.brokers = [broker_at(1, known.port)]
                options = {"reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 100}
                async with network_to(entry.address, **options) as network:
                    await network.updated(5000)
                    await network.call(1, HEARTBEAT)
                    asked = len(entry.asked)
                    known.drop_connections()
                    await until(lambda: network.connection_now(1) is None)
                    network.request_update()
                    await network.updated(5000)
                    assert len(entry.asked) == asked

        run(main())

    def test_without_it_only_known_brokers_are_asked(self, run: Run) -> None:
        async def main() -> None:
            old, entry = FakeBroker(node_id=1), FakeBroker(node_id=9)
            async with running(entry), running(old):
                entry.brokers = [broker_at(1, old.port)]
                async with network_to(entry.address, metadata_recovery_strategy="none") as network:
                    await network.updated(5000)
                    await network.call(1, HEARTBEAT)
                    asked = len(entry.asked)
                    await old.stop()
                    for _ in range(5):
                        with pytest.raises(RetriableError):
                            await network.any_node()
                    assert len(entry.asked) == asked
                    await old.start()

        run(main())

    def test_a_broker_can_tell_clients_to_start_again(self, run: Run) -> None:
        async def main() -> None:
            old, new, entry = FakeBroker(node_id=1), FakeBroker(node_id=2), FakeBroker(node_id=9)
            old.answers[MetadataRequest] = lambda request, version: MetadataResponse(
                brokers=[], topics=[], error_code=ErrorCode.REBOOTSTRAP_REQUIRED
            )
            async with running(old, new, entry):
                entry.brokers = [broker_at(1, old.port)]
                async with network_to(entry.address) as network:
                    await network.updated(5000)
                    entry.brokers = [broker_at(2, new.port)]
                    network.request_update()
                    await network.updated(5000)
                    assert list(network.cluster.nodes) == [2]

        run(main())

    def test_brokers_that_connect_but_give_no_metadata_are_given_up_after_a_while(
        self, run: Run
    ) -> None:
        async def main() -> None:
            old, new, entry = FakeBroker(node_id=1), FakeBroker(node_id=2), FakeBroker(node_id=9)
            old.answers[MetadataRequest] = lambda request, version: None
            async with running(old, new, entry):
                entry.brokers = [broker_at(1, old.port)]
                async with network_to(
                    entry.address,
                    request_timeout_ms=50,
                    **{"metadata.recovery.rebootstrap.trigger.ms": 200},
                ) as network:
                    await network.updated(5000)
                    # Kept open, so that the broker never looks unreachable.
                    entry.brokers = [broker_at(2, new.port)]
                    network.request_update()
                    await until(lambda: 2 in network.cluster.nodes)

        run(main())


class TestCoordinators:
    def test_a_group_has_a_connection_of_its_own(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                node_id = await network.coordinator(KEY_GROUP, "g")
                await network.call(node_id, HEARTBEAT)
                assert broker.connections == 2
                assert network.name_of(node_id) == f"0 at {broker.address}"
                assert await network.coordinator(KEY_TRANSACTION, "t") == 0

        run(main())

    def test_it_is_looked_up_once_until_it_is_forgotten(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            async with running(broker), network_to(broker.address) as network:
                for _ in range(3):
                    await network.coordinator(KEY_GROUP, "g")
                assert len(broker.asked_for(FindCoordinatorRequest)) == 1
                network.forget_coordinator(KEY_GROUP, "g")
                await network.coordinator(KEY_GROUP, "g")
                assert len(broker.asked_for(FindCoordinatorRequest)) == 2

        run(main())


def test_a_callback_that_fails_does_not_stop_metadata(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address) as network:
            told: list[ClusterMetadata] = []

            def fail(cluster: ClusterMetadata) -> None:
                raise ZeroDivisionError

            network.on_update += [fail, told.append]
            await network.updated(5000)
            network.request_update()
            await network.updated(5000)
            assert len(told) == 2

    run(main())
