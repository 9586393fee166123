"""Raw handshakes: the broker answers as Apache Kafka 4.3.1 does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from tests.broker.security.handshakes import PASSWORD, SCRIPTS, USER, play
from tests.broker.security.record_handshakes import recorded

import ottla
from ottla.broker.security.first_users import ensure_users

DIFFERENCES: Mapping[tuple[str, str], tuple[list[str], str]] = {
    ("SASL", "scram, unknown user"): (
        [
            "> SaslAuthenticate v2",
            "< error 0, '', b'r=nonce...,s=...,i=4096', without end",
        ],
        "an unknown user takes the same steps as a wrong password",
    ),
    ("SASL", "token, basic"): (
        [
            "< error 58, 'Authentication failed during authentication due to invalid credentials "
            "with SASL mechanism OAUTHBEARER', b'', without end",
        ],
        "Kafka fails over its own error message",
    ),
    ("SASL", "a request after the handshake"): (
        [],
        "other requests have no answer before a login",
    ),
}
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """A broker with the listeners of `secured_kafka`."""
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_text('{"keys": []}')
    with ottla.Broker(
        {
            "listeners": "OPEN://127.0.0.1:0,SASL://127.0.0.1:0,SHORT://127.0.0.1:0",
            "listener.security.protocol.map": "OPEN:PLAINTEXT,SASL:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "listener.name.short.connections.max.reauth.ms": "6000",
            "listener.name.sasl.plain.sasl.jaas.config": f'{_JAAS} user_listed="listed-secret";',
            "connection.failed.authentication.delay.ms": "0",
        }
    ) as broker:
        broker._call(
            lambda running: ensure_users(running.cluster, {USER: PASSWORD, "bob": "bob-secret"})
        )
        yield {name: broker.servers_of_listener(name) for name in SCRIPTS}


CASES = [(listener, name) for listener, scripts in SCRIPTS.items() for name in scripts]


@pytest.mark.parametrize(("listener", "name"), CASES)
def test_answers_are_those_of_kafka(addresses: Mapping[str, str], listener: str, name: str) -> None:
    ours = play(listener, name, addresses[listener])
    kafkas = recorded()[listener, name]
    added, _ = DIFFERENCES.get((listener, name), ([], ""))
    if (listener, name) in DIFFERENCES:
        assert ours != kafkas, "no difference any more"
        assert all(line in ours for line in added)
        assert ours[-1] == kafkas[-1]
    else:
        assert ours == kafkas
