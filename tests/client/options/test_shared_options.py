"""What the options do that producers, consumers and admin clients share."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from tests.client.network.fake_broker import FakeBroker, network_to, running, until
from tests.client.producer.meddler import Meddler
from tests.client.security.certificates import Certificates
from tests.client.security.sasl_broker import PASSWORD, USER, SaslBroker
from tests.waiting import in_time

import ottla
from ottla.client.aio.network.network import Network
from ottla.errors import FatalError, RetriableError, TlsError
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

CLIENTS: dict[str, Callable[..., Any]] = {
    "producer": ottla.Producer,
    "consumer": ottla.Consumer,
    "admin": ottla.Admin,
}


@pytest.fixture(params=CLIENTS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a client of one of the three kinds."""
    return CLIENTS[request.param]


def ask(client: Any, topic: str) -> None:
    """Have a client send a request that the cluster answers."""
    if isinstance(client, ottla.Producer):
        client.send(topic, b"x").result(10)
    else:
        client.list_topics()


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 20))


def eventually(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        in_time(deadline, "it did not happen")
        time.sleep(0.005)


# With each of the three clients


def test_bootstrap_servers_are_asked_until_one_answers(
    make: Callable[..., Any], servers: str, topic: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = f"127.0.0.1:{server.getsockname()[1]}"
    with make(bootstrap_servers=[dead, servers]) as client:
        ask(client, topic)


def test_client_id_is_in_every_request(
    make: Callable[..., Any], meddler: Meddler, servers: str, topic: str
) -> None:
    with make(bootstrap_servers=servers, client_id="till-3") as client:
        ask(client, topic)
        assert {request.client_id for request in meddler.requests} == {"till-3"}


def test_metadata_is_asked_for_again_after_metadata_max_age_ms(
    make: Callable[..., Any], meddler: Meddler, servers: str, topic: str
) -> None:
    with make(bootstrap_servers=servers, metadata_max_age_ms=20) as client:
        ask(client, topic)
        eventually(lambda: len(meddler.seen("Metadata")) >= 5)
    meddler.calm()
    with make(bootstrap_servers=servers, metadata_max_age_ms=60_000) as client:
        ask(client, topic)
        time.sleep(0.2)
        assert len(meddler.seen("Metadata")) < 5


def test_an_idle_connection_is_closed_after_connections_max_idle_ms(
    make: Callable[..., Any], meddler: Meddler, servers: str, topic: str
) -> None:
    def connects_after_a_pause(client: Any) -> bool:
        time.sleep(0.25)
        meddler.calm()
        ask(client, topic)
        # Every new connection begins with it.
        return bool(meddler.seen("ApiVersions"))

    with make(bootstrap_servers=servers, connections_max_idle_ms=60_000) as client:
        ask(client, topic)
        assert not connects_after_a_pause(client)
    with make(bootstrap_servers=servers, connections_max_idle_ms=80) as client:
        ask(client, topic)
        eventually(lambda: connects_after_a_pause(client))


# On the network that all three have


@asynccontextmanager
async def hangs_up() -> AsyncIterator[tuple[str, list[float]]]:
    """A server that ends every connection at once, and when the connections came."""
    loop = asyncio.get_running_loop()
    came: list[float] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(loop.time())
        writer.transport.abort()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    finally:
        server.close()
        await server.wait_closed()


# Where the first pause is long; where it stays short; where it grows.
PAUSES = pytest.mark.parametrize(
    ("first_ms", "most_ms", "count", "shortest_ms"),
    [(250, 250, 2, 200), (10, 10, 12, 0), (10, 1000, 6, 100)],
)


def check_pauses(times: list[float], count: int, shortest_ms: float) -> None:
    """So many came, and the last pause was not shorter than that; a machine with much to do makes them longer."""
    # Without a limit the pauses before the 12th would take 20 seconds together.
    assert len(times) >= count
    assert times[count - 1] - times[0] < 10
    assert (times[count - 1] - times[count - 2]) * 1000 >= shortest_ms


@PAUSES
def test_attempts_to_connect_pause_from_reconnect_backoff_ms_to_its_max(
    first_ms: int, most_ms: int, count: int, shortest_ms: float
) -> None:
    async def main() -> None:
        options = {"reconnect.backoff.ms": first_ms, "reconnect.backoff.max.ms": most_ms}
        async with hangs_up() as (address, came), network_to(address, **options):
            await until(lambda: len(came) >= count)
            check_pauses(came, count, shortest_ms)

    run(main())


@PAUSES
def test_requests_are_repeated_with_pauses_from_retry_backoff_ms_to_its_max(
    first_ms: int, most_ms: int, count: int, shortest_ms: float
) -> None:
    async def main() -> None:
        broker = FakeBroker()
        asked: list[float] = []

        def tell(request: MetadataRequest, version: int) -> MetadataResponse:
            if request.topics:
                asked.append(asyncio.get_running_loop().time())
            return broker._metadata(request, version)

        broker.answers[MetadataRequest] = tell
        options = {"retry.backoff.ms": first_ms, "retry.backoff.max.ms": most_ms}
        async with running(broker), network_to(broker.address, **options) as network:
            network.want_topic("nowhere")
            await until(lambda: len(asked) >= count)
            check_pauses(asked, count, shortest_ms)

    run(main())


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server whose backlog is full: attempts to connect get no answer."""
    with socket.socket() as server, socket.socket() as filler, socket.socket() as more:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for each in (filler, more):
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


async def time_given_ms(network: Network) -> int:
    with pytest.raises(RetriableError, match="no connection within") as caught:
        await network.any_node()
    (found,) = re.findall(r"within (\d+) ms", str(caught.value))
    return int(found)


def test_attempts_to_connect_last_from_the_setup_timeout_to_its_max() -> None:
    async def given(first_ms: int, most_ms: int) -> list[int]:
        options = {
            "socket.connection.setup.timeout.ms": first_ms,
            "socket.connection.setup.timeout.max.ms": most_ms,
        }
        with silent() as address:
            async with network_to(address, **options) as network:
                return [await time_given_ms(network) for _ in range(4)]

    async def main() -> None:
        assert all(24 <= limit_ms <= 30 for limit_ms in await given(30, 30))
        growing = await given(30, 100)
        assert growing[0] <= 36
        assert all(80 <= limit_ms <= 100 for limit_ms in growing[2:])

    run(main())


@pytest.mark.parametrize(
    ("option", "number"),
    [("send.buffer.bytes", socket.SO_SNDBUF), ("receive.buffer.bytes", socket.SO_RCVBUF)],
)
def test_sockets_have_the_buffers_that_are_asked_for(option: str, number: int) -> None:
    async def size_with(value: int) -> int:
        broker = FakeBroker()
        async with running(broker), network_to(broker.address, **{option: value}) as network:
            await network.updated(5000)
            connection = await network.connection(0)
            return connection.tcp_socket.getsockopt(socket.SOL_SOCKET, number)

    async def main() -> None:
        # Linux keeps twice what it is asked for.
        assert await size_with(20_000) in (20_000, 40_000)
        assert await size_with(30_000) in (30_000, 60_000)
        assert await size_with(-1) not in (20_000, 40_000, 30_000, 60_000)

    run(main())


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name for 127.0.0.1, and its canonical name."""
    find = socket.getaddrinfo

    def look_up(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != "kafka.example":
            return find(host, port, *rest, **more)
        kind = (socket.SOCK_STREAM, 6, "")
        return [(socket.AF_INET, *kind, ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "getnameinfo", lambda where, flags: ("localhost", str(where[1])))


@pytest.mark.parametrize("lookup", ["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"])
def test_bootstrap_servers_are_known_by_their_canonical_names_if_client_dns_lookup_says_so(
    names: None, certificates: Certificates, lookup: str
) -> None:
    """The certificate is for localhost, which is the canonical name of kafka.example here."""

    async def main() -> None:
        broker = FakeBroker(tls=certificates.server_context())
        options = {
            "security.protocol": "SSL",
            "ssl.truststore.location": certificates.ca,
            "client.dns.lookup": lookup,
        }
        async with (
            running(broker),
            network_to(f"kafka.example:{broker.port}", **options) as network,
        ):
            if lookup == "use_all_dns_ips":
                with pytest.raises(TlsError, match=r"kafka\.example"):
                    await network.updated(5000)
            else:
                await network.updated(5000)

    run(main())


@pytest.mark.parametrize(
    ("option", "value"),
    [("ssl.protocol", "TLSv1.2"), ("ssl.enabled.protocols", "TLSv1.2"), (None, None)],
)
def test_the_version_of_tls_is_that_of_the_options(
    certificates: Certificates, option: str | None, value: str | None
) -> None:
    async def main() -> None:
        server: ssl.SSLContext = certificates.server_context()
        broker = FakeBroker(tls=server)
        options: dict[str, object] = {
            "security.protocol": "SSL",
            "ssl.truststore.location": certificates.ca,
        }
        if option is not None:
            options[option] = value
        async with running(broker), network_to(broker.address, **options) as network:
            await network.updated(5000)
            transport = (await network.connection(0))._transport
            assert transport is not None
            spoken = transport.get_extra_info("ssl_object").version()
            assert spoken == (value or "TLSv1.3")

    run(main())


def login(name: str, password: str) -> dict[str, object]:
    return {"sasl.username": name, "sasl.password": password}


def jaas(name: str, password: str, module: str = "plain.PlainLoginModule") -> dict[str, object]:
    text = f"org.apache.kafka.common.security.{module} required"
    return {"sasl.jaas.config": f'{text} username="{name}" password="{password}";'}


@pytest.mark.parametrize(
    ("mechanism", "options", "is_served"),
    [
        ("PLAIN", login(USER, PASSWORD), True),
        ("PLAIN", login("mallory", PASSWORD), False),
        ("PLAIN", login(USER, "guess"), False),
        ("PLAIN", jaas(USER, PASSWORD), True),
        ("PLAIN", jaas(USER, "guess"), False),
        ("SCRAM-SHA-512", jaas(USER, PASSWORD, "scram.ScramLoginModule"), True),
        ("SCRAM-SHA-512", jaas(USER, "guess", "scram.ScramLoginModule"), False),
    ],
)
def test_who_the_client_is_comes_from_two_options_or_from_jaas(
    mechanism: str, options: dict[str, object], is_served: bool
) -> None:
    async def main() -> None:
        broker = SaslBroker("PLAIN", "SCRAM-SHA-512")
        given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **options}
        async with running(broker), network_to(broker.address, **given) as network:
            if is_served:
                await network.updated(5000)
            else:
                with pytest.raises(FatalError, match="SASL_AUTHENTICATION_FAILED"):
                    await network.updated(5000)

    run(main())
