"""The registry's client: addresses in turn, retries, errors by what to do about them, caches, credentials."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.client.security.certificates import KEY_PASSWORD, make_certificates
from tests.schemas.fake_registry import FakeRegistry, fake_registry

from ottla.errors import AbortableError, ConfigError, IllegalStateError, RetriableError
from ottla.schemas import (
    AsyncSchemaRegistryClient,
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAccessError,
    RegistryRequestError,
    RegistryUnavailableError,
    Schema,
    SchemaNotFoundError,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from ottla.schemas.client.caches import BoundedCache
from ottla.schemas.client.exchange import Pause, Requests, Response, Send, Unreachable
from ottla.schemas.config import read_registry_config

TEXT = Schema('"string"')
NUMBER = Schema('"long"')
QUICK: dict[str, Any] = {"retries_wait_ms": 1, "retries_max_wait_ms": 2}
CLOSED = "http://127.0.0.1:9"


def client_of(registry: FakeRegistry, **options: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient(schema_registry_url=registry.url, **{**QUICK, **options})


def replies_to(requests: Requests, replies: list[Any]) -> list[Send | Pause]:
    """What a request does when it is given these replies, up to its end."""
    exchange = requests.request("GET", "/subjects")
    steps = [next(exchange)]
    try:
        for reply in replies:
            steps.append(exchange.send(reply))
    except StopIteration:
        pass
    return steps


def requests_of(**options: Any) -> Requests:
    return Requests(read_registry_config(options)[0], random_unit=lambda: 0.5)


def test_a_schema_is_registered_found_and_read_by_id_and_version(registry: FakeRegistry) -> None:
    with client_of(registry) as client:
        first = client.register_schema("orders-value", TEXT)
        second = client.register_schema("orders-value", NUMBER)
        assert (first.id, second.id) == (1, 2)
        assert client.lookup_schema("orders-value", NUMBER).version == 2
        assert client.get_schema(2) == NUMBER
        assert client.get_version("orders-value", 1).schema == TEXT
        assert client.get_latest_version("orders-value").id == 2


def test_the_asyncio_client_does_the_same(registry: FakeRegistry) -> None:
    async def main() -> None:
        async with AsyncSchemaRegistryClient({"url": registry.url}) as client:
            registered = await client.register_schema("orders/é", TEXT)
            assert await client.get_schema(registered.id) == TEXT
            assert (await client.lookup_schema("orders/é", TEXT)).version == 1

    asyncio.run(main())
    assert ("POST", "/subjects/orders%2F%C3%A9/versions") in registry.requests


def test_an_id_is_asked_for_once(registry: FakeRegistry) -> None:
    with client_of(registry) as client:
        client.register_schema("a", TEXT)
        client.register_schema("a", TEXT)
        for _ in range(3):
            client.get_schema(1)
            client.get_version("a", 1)
            client.get_latest_version("a")
    assert len(registry.requests) == 4


def test_the_latest_version_is_asked_for_again_when_its_time_is_over(
    registry: FakeRegistry,
) -> None:
    with client_of(registry, latest_cache_ttl_sec=0) as client:
        client.register_schema("a", TEXT)
        assert client.get_latest_version("a").id == 1
        client.register_schema("a", NUMBER)
        assert client.get_latest_version("a").id == 2


def test_a_cache_drops_what_was_not_used_for_the_longest_time() -> None:
    cache: BoundedCache[int, str] = BoundedCache(2)
    cache.put(1, "a")
    cache.put(2, "b")
    cache.get(1)
    cache.put(3, "c")
    assert (cache.get(1), cache.get(2), cache.get(3), len(cache)) == ("a", None, "c", 2)


@pytest.mark.parametrize(
    ("status", "code", "kind", "family"),
    [
        (404, 40401, SchemaNotFoundError, AbortableError),
        (404, 40403, SchemaNotFoundError, AbortableError),
        (409, 409, IncompatibleSchemaError, AbortableError),
        (422, 42201, InvalidSchemaError, AbortableError),
        (422, 42205, RegistryRequestError, AbortableError),
        (401, 401, RegistryAccessError, AbortableError),
        (500, 50003, RegistryUnavailableError, RetriableError),
        (429, 429, RegistryUnavailableError, RetriableError),
        (503, 503, RegistryUnavailableError, RetriableError),
    ],
)
def test_an_error_says_what_to_do_by_its_class(
    registry: FakeRegistry, status: int, code: int, kind: type, family: type
) -> None:
    registry.failures = [(status, {"error_code": code, "message": "no"})] * 2
    with (
        client_of(registry, max_retries=1) as client,
        pytest.raises(SchemaRegistryError, match="no") as caught,
    ):
        client.get_schema(1)
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, family)
    assert (error.status, error.error_code) == (status, code)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (kind, str(error))


def test_a_failure_that_may_pass_is_repeated(registry: FakeRegistry) -> None:
    registry.failures = [(500, {"error_code": 50002, "message": "timed out"})] * 2
    with client_of(registry) as client:
        assert client.register_schema("a", TEXT).id == 1
    assert len(registry.requests) == 3


def test_a_registry_that_is_gone_is_replaced_by_the_next(registry: FakeRegistry) -> None:
    with SchemaRegistryClient(schema_registry_url=f"{CLOSED},{registry.url}", **QUICK) as client:
        assert client.register_schema("a", TEXT).id == 1


def test_no_registry_at_all_is_an_error_to_try_again(registry: FakeRegistry) -> None:
    with (
        SchemaRegistryClient(schema_registry_url=CLOSED, max_retries=1, **QUICK) as client,
        pytest.raises(RetriableError, match="cannot be reached"),
    ):
        client.get_schema(1)


def test_pauses_double_up_to_the_limit_and_follow_a_round_of_all_addresses() -> None:
    gone = Unreachable("refused", was_sent=False)
    requests = requests_of(
        url="http://a,http://b", max_retries=2, retries_wait_ms=100, retries_max_wait_ms=150
    )
    steps = replies_to(requests, [gone, gone, None, gone, gone, None, gone, Response(200, b"[]")])
    assert [
        step.seconds if isinstance(step, Pause) else step.url.removesuffix("/subjects")
        for step in steps
    ] == ["http://a", "http://b", 0.1, "http://a", "http://b", 0.15, "http://a", "http://b"]


@pytest.mark.parametrize(("was_sent", "repeats"), [(True, False), (False, True)])
def test_a_delete_is_repeated_only_if_it_was_not_sent(was_sent: bool, repeats: bool) -> None:
    exchange = requests_of(url="http://a").request("DELETE", "/subjects/a")
    next(exchange)
    if repeats:
        assert isinstance(exchange.send(Unreachable("reset", was_sent)), Pause)
    else:
        with pytest.raises(RegistryUnavailableError):
            exchange.send(Unreachable("reset", was_sent))


def test_a_permanent_deletion_deletes_softly_first(registry: FakeRegistry) -> None:
    registry.failures = [(404, {"error_code": 40404, "message": "soft-deleted"}), (200, [1])]  # type: ignore[list-item]
    with client_of(registry) as client:
        assert client.delete_subject("a", permanent=True) == [1]
    assert registry.requests == [
        ("DELETE", "/subjects/a"),
        ("DELETE", "/subjects/a?permanent=true"),
    ]


def test_an_answer_that_is_no_registry_s_says_so() -> None:
    exchange = requests_of(url="http://a").request("GET", "/subjects")
    next(exchange)
    with pytest.raises(SchemaRegistryError, match="is no JSON"):
        exchange.send(Response(200, b"<html>"))


@pytest.mark.parametrize(
    ("options", "authorization"),
    [
        ({"basic_auth_user_info": "ada:se:cret"}, "Basic YWRhOnNlOmNyZXQ="),
        ({"bearer_auth_token": "t0"}, "Bearer t0"),
        ({"bearer_auth_token": lambda: "t1"}, "Bearer t1"),
    ],
)
def test_credentials_are_sent(
    registry: FakeRegistry, options: dict[str, Any], authorization: str
) -> None:
    with client_of(registry, **options) as client:
        client.register_schema("a", TEXT)
    assert registry.headers[0]["Authorization"] == authorization


def test_credentials_in_the_address_are_sent_and_never_shown(registry: FakeRegistry) -> None:
    url = registry.url.replace("http://", "http://ada:se%3Acret@")
    registry.failures = [(401, {"error_code": 401, "message": "no"})]
    with (
        SchemaRegistryClient(schema_registry_url=url) as client,
        pytest.raises(RegistryAccessError) as caught,
    ):
        client.get_schema(1)
    assert registry.headers[0]["Authorization"] == "Basic YWRhOnNlOmNyZXQ="
    assert "cret" not in str(caught.value) + repr(client.addresses)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "schema.registry.url is missing"),
        ({"url": "localhost:8081"}, "write http://host:port"),
        ({"url": CLOSED, "basic_auth_user_info": "ada"}, "name:password"),
        ({"url": CLOSED, "basic_auth_credentials_source": "USER_INFO"}, "give basic.auth.user"),
        ({"url": "http://a:b@c", "basic_auth_user_info": "a:b"}, "remove one"),
        ({"url": CLOSED, "schema_registry_uri": "x"}, "did you mean schema.registry.url"),
        ({"url": CLOSED, "ssl_ca_location": "x"}, "schema.registry.ssl.truststore.location"),
        (
            {"url": CLOSED, "schema_registry_ssl_truststore_location": "/no/such/file"},
            None,
        ),
        ({"url": CLOSED, "schema.registry.ssl.truststore.type": "JKS"}, "PEM"),
    ],
)
def test_a_mistake_in_the_options_says_what_to_change(
    options: dict[str, Any], match: str | None
) -> None:
    if match is None:
        options["url"] = "https://127.0.0.1:9"
        match = "cannot be read"
    with pytest.raises(ConfigError, match=match):
        SchemaRegistryClient(options)


def test_tls_trusts_whom_the_options_say_and_shows_the_client_s_certificate(
    tmp_path: Path,
) -> None:
    files = make_certificates(tmp_path)
    with fake_registry(files.server_context_for_known_clients()) as registry:
        with client_of(
            registry,
            schema_registry_ssl_truststore_location=str(files.ca),
            schema_registry_ssl_keystore_location=str(files.encrypted_client),
            schema_registry_ssl_key_password=KEY_PASSWORD,
        ) as client:
            assert client.register_schema("a", TEXT).id == 1
        with (
            client_of(
                registry, schema_registry_ssl_truststore_location=str(files.other_ca)
            ) as client,
            pytest.raises(
                RegistryAccessError, match=r"is not trusted: .*CERTIFICATE_VERIFY_FAILED"
            ),
        ):
            client.get_schema(1)


def test_a_closed_client_says_so(registry: FakeRegistry) -> None:
    client = client_of(registry)
    client.close()
    with pytest.raises(IllegalStateError, match="closed"):
        client.get_schema(1)


def test_a_client_can_be_used_on_one_loop_after_another() -> None:
    with fake_registry() as registry:
        client = AsyncSchemaRegistryClient(url=registry.url)

        async def once(subject: str) -> int:
            try:
                return (await client.register_schema(subject, TEXT)).id
            finally:
                await _close_connections(client)

        assert [asyncio.run(once("a")), asyncio.run(once("b"))] == [1, 1]


async def _close_connections(client: AsyncSchemaRegistryClient) -> None:
    opened = client._http.pop(asyncio.get_running_loop())
    await opened.aclose()
