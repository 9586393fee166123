"""Saying who we are, on connections: every mechanism, refusals, and sessions that end."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.network.conftest import Run
from tests.client.network.fake_broker import (
    HEARTBEAT,
    FakeBroker,
    network_to,
    running,
    until,
)
from tests.client.security.certificates import Certificates
from tests.client.security.sasl_broker import EXCHANGES, PASSWORD, TOKEN, USER, SaslBroker

from ottla.client.aio.network import authentication
from ottla.errors import ErrorCode, FatalError, RetriableError, TlsError
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

KAFKA_2_1 = {3: (0, 7), 10: (0, 2), 12: (0, 2), 17: (0, 1), 18: (0, 2), 36: (0, 0)}


def sasl(mechanism: str, **options: object) -> dict[str, object]:
    """Options with the right name and password, or token."""
    known: dict[str, object] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        known["sasl.login.callback.handler.class"] = lambda: TOKEN
    else:
        known |= {"sasl_username": USER, "sasl_password": PASSWORD}
    return {**known, **options}


async def refused(broker: FakeBroker, words: str, **options: object) -> FatalError:
    """See that the broker or the client refuses, for good."""
    async with running(broker), network_to(broker.address, **options) as network:
        with pytest.raises(FatalError, match=words) as caught:
            await network.updated(5000)
        with pytest.raises(FatalError, match=words):
            await network.any_node()
        return caught.value


@pytest.mark.parametrize("mechanism", EXCHANGES)
def test_a_client_that_says_who_it_is_is_served(run: Run, mechanism: str) -> None:
    async def main() -> None:
        broker = SaslBroker(mechanism)
        async with running(broker), network_to(broker.address, **sasl(mechanism)) as network:
            await network.updated(5000)
            await network.call(0, HEARTBEAT)
            # A version that is not known would be taken for a step of Kerberos.
            assert [each.version for each in broker.asked_for(ApiVersionsRequest)] == [0, 5]

    run(main())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_sasl_through_tls(run: Run, certificates: Certificates, mechanism: str) -> None:
    async def main() -> None:
        broker = SaslBroker(mechanism, tls=certificates.server_context())
        options = sasl(
            mechanism, security_protocol="SASL_SSL", ssl_truststore_location=certificates.ca
        )
        async with running(broker), network_to(broker.address, **options) as network:
            await network.updated(5000)
            await network.call(0, HEARTBEAT)

    run(main())


@pytest.mark.parametrize("mechanism", EXCHANGES)
def test_brokers_of_kafka_2_1_know_sessions_without_end(run: Run, mechanism: str) -> None:
    async def main() -> None:
        broker = SaslBroker(mechanism)
        broker.versions = dict(KAFKA_2_1)
        async with running(broker), network_to(broker.address, **sasl(mechanism)) as network:
            await network.updated(5000)
            assert {each.version for each in broker.asked_for(SaslAuthenticateRequest)} == {0}

    run(main())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_fatal_and_not_shown(run: Run, mechanism: str) -> None:
    async def main() -> None:
        error = await refused(
            SaslBroker(mechanism),
            rf"SASL_AUTHENTICATION_FAILED.*wrong.*mechanism={mechanism}",
            **sasl(mechanism, sasl_password="guess"),
        )
        assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "guess" not in str(error)

    run(main())


def test_a_token_that_the_broker_does_not_accept_is_fatal(run: Run) -> None:
    options = {"sasl.login.callback.handler.class": lambda: "bad.token"}
    broker = SaslBroker("OAUTHBEARER")
    run(refused(broker, "SASL_AUTHENTICATION_FAILED", **sasl("OAUTHBEARER", **options)))


def test_a_mechanism_that_the_broker_does_not_offer_is_fatal_and_lists_those_it_does(
    run: Run,
) -> None:
    broker = SaslBroker("SCRAM-SHA-512", "OAUTHBEARER")
    words = "does not offer PLAIN; it offers SCRAM-SHA-512, OAUTHBEARER"
    run(refused(broker, words, **sasl("PLAIN")))


def test_a_client_without_sasl_is_told_that_the_protocol_may_be_wrong(run: Run) -> None:
    async def main() -> None:
        broker = SaslBroker("PLAIN")
        async with running(broker), network_to(broker.address) as network:
            with pytest.raises(RetriableError, match=r"broke|security\.protocol=PLAINTEXT"):
                await network.call(await network.any_node(), HEARTBEAT)

    run(main())


class TestTokens:
    """The callback for OAUTHBEARER."""

    @staticmethod
    async def use(callback: Callable[[], Any]) -> None:
        broker = SaslBroker("OAUTHBEARER")
        options = sasl("OAUTHBEARER", **{"sasl.login.callback.handler.class": callback})
        async with running(broker), network_to(broker.address, **options) as network:
            await network.updated(5000)

    def test_a_function_that_blocks_does_not_hold_up_the_loop(self, run: Run) -> None:
        async def main() -> None:
            loop, asked, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

            def callback() -> str:
                loop.call_soon_threadsafe(asked.set)
                assert go.wait(10)
                return TOKEN

            using = asyncio.create_task(self.use(callback))
            await asked.wait()
            go.set()
            await using

        run(main())

    def test_a_coroutine_function_runs_on_the_loop(self, run: Run) -> None:
        threads = []

        async def callback() -> tuple[str, dict[str, str]]:
            threads.append(threading.current_thread())
            return TOKEN, {}

        run(self.use(callback))
        assert set(threads) == {threading.current_thread()}

    def test_an_object_with_a_coroutine_for_its_call_does_as_well(self, run: Run) -> None:
        class Tokens:
            async def __call__(self) -> str:
                return TOKEN

        run(self.use(Tokens()))

    def test_what_it_raises_is_told_and_fatal(self, run: Run) -> None:
        def callback() -> str:
            raise KeyError("no credentials")

        options = sasl("OAUTHBEARER", **{"sasl.login.callback.handler.class": callback})
        run(refused(SaslBroker("OAUTHBEARER"), "raised KeyError.*no credentials", **options))

    def test_what_is_no_token_is_told_and_fatal(self, run: Run) -> None:
        options = sasl("OAUTHBEARER", **{"sasl.login.callback.handler.class": lambda: None})
        run(refused(SaslBroker("OAUTHBEARER"), "returned NoneType", **options))

    def test_whoever_gives_tokens_may_be_out_of_reach_for_a_while(self, run: Run) -> None:
        failures = [ConnectionError("down"), TimeoutError("slow")]

        def callback() -> str:
            if failures:
                raise failures.pop()
            return TOKEN

        run(self.use(callback))
        assert not failures


@given(st.integers(1, 2**40), st.floats(0, 1, exclude_max=True))
def test_a_session_is_renewed_near_its_end_but_not_too_soon_after_the_last_renewal(
    lifetime_ms: int, unit: float
) -> None:
    pause = authentication.seconds_to_renewal(lifetime_ms, unit)
    # Kafka refuses a second renewal within a second.
    assert pause > 1
    if lifetime_ms >= 1300:
        assert 0.849 * lifetime_ms / 1000 <= pause <= 0.951 * lifetime_ms / 1000


class TestSessions:
    """KIP-368: authentication has an end, and is renewed without closing the connection."""

    @pytest.fixture(autouse=True)
    def impatience(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(authentication, "SHORTEST_INTERVAL_SECONDS", 0)

    @pytest.mark.parametrize("mechanism", EXCHANGES)
    def test_a_session_is_renewed_before_it_ends(self, run: Run, mechanism: str) -> None:
        async def main() -> None:
            broker = SaslBroker(mechanism)
            broker.session_lifetime_ms = 60
            async with running(broker), network_to(broker.address, **sasl(mechanism)) as network:
                await network.updated(5000)
                while broker.authentications < 4:
                    await network.call(0, HEARTBEAT)
                assert broker.connections == 1

        run(main())

    def test_requests_keep_their_order_around_a_renewal(self, run: Run) -> None:
        """Between the handshake and its end the broker takes nothing else: SaslBroker hangs up."""

        async def main() -> None:
            broker = SaslBroker("SCRAM-SHA-256")
            broker.session_lifetime_ms = 50
            broker.answers[HeartbeatRequest] = broker._guarded(
                lambda request, version: HeartbeatResponse(error_code=request.generation_id)
            )
            options = sasl("SCRAM-SHA-256")
            async with running(broker), network_to(broker.address, **options) as network:
                await network.updated(5000)
                connection = await network.connection(0)
                number = 0
                answers: list[asyncio.Future[HeartbeatResponse]] = []
                while broker.authentications < 4:
                    for _ in range(20):
                        number = number % 100 + 1
                        request = dataclasses.replace(HEARTBEAT, generation_id=number)
                        answers.append(connection.send(request, 4))
                    await asyncio.sleep(0)
                got = [(await answer).error_code for answer in answers]
                assert got == [index % 100 + 1 for index in range(len(got))]
                sent = broker.asked_for(HeartbeatRequest)
                assert [each.request.generation_id for each in sent] == got
                assert broker.connections == 1

        run(main())

    def test_a_renewal_that_is_refused_ends_the_connection_with_the_reason(self, run: Run) -> None:
        async def main() -> None:
            tokens = [TOKEN]

            def callback() -> str:
                return tokens.pop() if tokens else "expired.token"

            broker = SaslBroker("OAUTHBEARER")
            broker.session_lifetime_ms = 50
            options = sasl("OAUTHBEARER", **{"sasl.login.callback.handler.class": callback})
            async with running(broker), network_to(broker.address, **options) as network:
                await network.updated(5000)
                connection = await network.connection(0)
                await until(lambda: connection.closed is not None)
                assert isinstance(connection.closed, FatalError)
                with pytest.raises(FatalError, match="SASL_AUTHENTICATION_FAILED"):
                    await network.call(0, HEARTBEAT)

        run(main())

    def test_closing_ends_renewals(self, run: Run) -> None:
        async def main() -> None:
            broker = SaslBroker("PLAIN")
            broker.session_lifetime_ms = 3_600_000
            async with running(broker), network_to(broker.address, **sasl("PLAIN")) as network:
                await network.updated(5000)

        run(main())


def test_a_client_that_does_not_log_in_is_told_to(run: Run) -> None:
    async def main() -> None:
        broker = SaslBroker("SCRAM-SHA-256")
        async with running(broker), network_to(broker.address) as network:
            with pytest.raises(FatalError, match=r"expects SASL on this port \(SCRAM-SHA-256\)"):
                await network.updated(5000)

    run(main())


def test_a_broker_that_hangs_up_and_needs_no_login_is_asked_again(run: Run) -> None:
    async def main() -> None:
        broker = FakeBroker()
        broker.versions[17] = (0, 1)
        metadata, hung_up = broker.answers[MetadataRequest], 0

        def hang_up(request: MetadataRequest, version: int) -> object:
            nonlocal hung_up
            hung_up += 1
            if hung_up == 1:
                broker.drop_connections()
                return None
            return metadata(request, version)

        broker.answers[MetadataRequest] = hang_up
        broker.answers[SaslHandshakeRequest] = lambda request, version: SaslHandshakeResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]
        )
        async with running(broker), network_to(broker.address) as network:
            await network.updated(5000)
        assert len(broker.asked_for(SaslHandshakeRequest)) == 1

    run(main())


def test_a_client_with_tls_is_told_that_the_broker_has_none(
    run: Run, certificates: Certificates
) -> None:
    async def main() -> None:
        broker = FakeBroker()
        options = {"security_protocol": "SSL", "ssl_truststore_location": certificates.ca}
        async with running(broker), network_to(broker.address, **options) as network:
            with pytest.raises(TlsError, match="does not speak TLS on this port"):
                await network.updated(5000)
        assert {each.version for each in broker.asked_for(ApiVersionsRequest)} == {0}

    run(main())
