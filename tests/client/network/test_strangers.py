"""Brokers that are old, and peers that speak no Kafka or speak it wrongly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.network.conftest import Run
from tests.client.network.fake_broker import (
    HEARTBEAT,
    FakeBroker,
    broker_at,
    network_to,
    running,
    until,
)

from ottla.client.aio.network.coordinator_cache import KEY_GROUP
from ottla.errors import FatalError, RetriableError, TlsError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
)

# What Kafka 2.1 speaks.
KAFKA_2_1 = {3: (0, 7), 10: (0, 2), 12: (0, 2), 17: (0, 1), 18: (0, 2), 36: (0, 0)}


class TestVersions:
    def test_a_broker_of_kafka_2_1_is_spoken_to_in_its_versions(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            broker.versions = dict(KAFKA_2_1)
            async with running(broker), network_to(broker.address) as network:
                await network.topic("t", 5000)
                await network.call(await network.coordinator(KEY_GROUP, "g"), HEARTBEAT)
                asked = {type(each.request): each.version for each in broker.asked}
                assert asked[MetadataRequest] == 7
                assert asked[FindCoordinatorRequest] == 2
                assert asked[HeartbeatRequest] == 2
                assert asked[ApiVersionsRequest] == 0

        run(main())

    def test_an_api_that_the_broker_lacks_is_an_error_that_names_it(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            del broker.versions[12]
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                with pytest.raises(FatalError, match=r"UNSUPPORTED_VERSION.*api=Heartbeat"):
                    await network.call(0, HEARTBEAT)

        run(main())

    def test_versions_that_do_not_overlap_are_an_error(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            broker.versions[12] = (9, 11)
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                with pytest.raises(FatalError, match="speaks 9 to 11 of the versions 0 to 4"):
                    await network.call(0, HEARTBEAT)
                with pytest.raises(FatalError):
                    await network.call(0, HEARTBEAT, at_most=2)

        run(main())


class TestStrangers:
    """Peers that speak no Kafka, or wrongly."""

    @pytest.mark.parametrize(
        ("greeting", "words"),
        [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
            (b"\xff\xff\xff\xff", "does not speak Kafka"),
            (b"\x00\x00\x00\x02\x00\x00", "a frame of 2 bytes"),
            (b"\x00\x00\x00\x04\x00\x00\x00\x63", "answered 99 where 0 was next"),
            (b"\x00\x00\x00\x04\x00\x00\x00\x00", "makes no sense"),
            (b"\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00", "makes no sense"),
        ],
    )
    def test_what_is_wrong_is_said(self, run: Run, greeting: bytes, words: str) -> None:
        async def main() -> None:
            broker = FakeBroker()
            broker.greeting = greeting
            async with running(broker), network_to(broker.address) as network:
                with pytest.raises(RetriableError, match=words):
                    await network.any_node()

        run(main())

    def test_an_answer_in_tls_is_final(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            broker.greeting = b"\x15\x03\x03\x00\x02\x02\x46"
            async with running(broker), network_to(broker.address) as network:
                with pytest.raises(TlsError, match=r"expects TLS on this port: set security\.pro"):
                    await network.any_node()

        run(main())

    def test_a_broker_that_hangs_up_at_once_may_want_another_protocol(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()

            def hang_up(request: Any, version: int) -> None:
                broker.drop_connections()

            broker.answers[MetadataRequest] = hang_up
            async with running(broker), network_to(broker.address) as network:
                with pytest.raises(RetriableError, match=r"broke|security.protocol=PLAINTEXT"):
                    await network.call(await network.any_node(), MetadataRequest(topics=[]))

        run(main())

    def test_an_answer_that_makes_no_sense_costs_the_connection_only(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            good = broker.answers[HeartbeatRequest]
            broker.answers[HeartbeatRequest] = lambda request, version: b"\0\0\0\4\0\0\0\2"
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                with pytest.raises(RetriableError, match="Heartbeat makes no sense"):
                    await network.call(0, HEARTBEAT)
                broker.answers[HeartbeatRequest] = good
                await network.call(0, HEARTBEAT)

        run(main())

    def test_a_frame_takes_memory_as_it_arrives_and_not_as_it_claims(self, run: Run) -> None:
        async def main() -> None:
            broker = FakeBroker()
            claimed = (2**31 - 1).to_bytes(4, "big")
            broker.answers[HeartbeatRequest] = lambda request, version: claimed + bytes(100)
            async with running(broker), network_to(broker.address) as network:
                await network.updated(5000)
                connection = await network.connection(0)
                call = asyncio.create_task(network.call(0, HEARTBEAT))
                await until(lambda: connection._large is not None)
                assert connection._large is not None
                assert len(connection._large) <= 16 * 1024 * 1024
                call.cancel()

        run(main())

    def test_an_answer_that_is_larger_than_what_is_taken_at_once_arrives_whole(
        self, run: Run
    ) -> None:
        async def main() -> None:
            broker = FakeBroker()
            size_bytes = 50_000_000
            name = "x" * 30_000
            count = size_bytes // len(name)
            broker.answers[MetadataRequest] = lambda request, version: MetadataResponse(
                brokers=[broker_at(0, broker.port)],
                topics=[broker._topic(name) for _ in range(count)],
            )
            async with running(broker), network_to(broker.address) as network:
                answer = await network.call(await network.any_node(), MetadataRequest(topics=None))
                assert [topic.name for topic in answer.topics] == [name] * count

        run(main())
