"""A broker with listeners for logins, its users, and tokens that it accepts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joserfc import jwk, jwt

import ottla
from ottla.access import Principal
from ottla.broker.runtime import RunningBroker
from ottla.broker.security.first_users import ensure_users
from ottla.testing import Broker

ALICE, PASSWORD = "alice", "alice-secret"
USERS = {ALICE: PASSWORD, "bob": "bob-secret", "a=b,c": "odd, name="}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SESSION_MS = 6000
BRIEF_SESSION_MS = 1300
_PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LISTENERS = {
    "OPEN": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",
    "SCRAM": "SASL_PLAINTEXT",
    "BRIEF": "SASL_PLAINTEXT",
}


class Tokens:
    """Who issues tokens: a key, its JWKS in a file, and what it signs."""

    def __init__(self, folder: Path) -> None:
        self.key = jwk.generate_key("EC", "P-256", {"kid": "first", "use": "sig"})
        self.file = folder / "jwks.json"
        self.publish(self.key)

    def publish(self, *keys: Any) -> None:
        text = json.dumps({"keys": [key.as_dict(private=False) for key in keys]})
        self.file.write_text(text, encoding="utf-8")

    def token(
        self, subject: str = ALICE, *, key: Any = None, algorithm: str = "ES256", **claims: Any
    ) -> str:
        now = int(time.time())
        signing = self.key if key is None else key
        return jwt.encode(
            {"alg": algorithm, "kid": signing.kid},
            {"sub": subject, "iat": now, "exp": now + 3600, **claims},
            signing,
            algorithms=[algorithm],
        )


class Stage:
    """A broker and what its clients need."""

    def __init__(self, broker: Broker, tokens: Tokens | None = None) -> None:
        self.broker = broker
        self._tokens = tokens

    @property
    def tokens(self) -> Tokens:
        assert self._tokens is not None
        return self._tokens

    def address(self, listener: str) -> str:
        return self.broker.servers_of_listener(listener)

    def running(self) -> RunningBroker:
        return self.broker._call(lambda running: running)

    def principals(self, listener: str) -> list[Principal]:
        """Those of the connections that a listener has now."""

        def look(running: RunningBroker) -> list[Principal]:
            return [
                connection.caller.principal
                for connection in running.server._connections
                if connection.caller.listener == listener
            ]

        return self.broker._call(look)

    def set_passwords(self, passwords: Mapping[str, str]) -> None:
        self.broker._call(lambda running: ensure_users(running.cluster, passwords))

    def options(
        self, mechanism: str, user: str = ALICE, password: str = PASSWORD
    ) -> dict[str, Any]:
        """How a client of ours logs in."""
        options: dict[str, Any] = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            # An error comes at once, and not after attempts.
            "reconnect.backoff.ms": 10,
            "default.api.timeout.ms": 10_000,
        }
        if mechanism == "OAUTHBEARER":
            options["sasl.login.callback.handler.class"] = lambda: self.tokens.token(user)
        else:
            options |= {"sasl.username": user, "sasl.password": password}
        return options

    @contextmanager
    def admin(self, listener: str, **options: Any) -> Iterator[ottla.Admin]:
        with ottla.Admin({"bootstrap.servers": self.address(listener), **options}) as admin:
            yield admin


@contextmanager
def sasl_stage(folder: Path, **options: Any) -> Iterator[Stage]:
    tokens = Tokens(folder)
    broker = Broker(
        {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in LISTENERS.items()),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": tokens.file.as_uri(),
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "listener.name.brief.connections.max.reauth.ms": str(BRIEF_SESSION_MS),
            "listener.name.sasl.plain.sasl.jaas.config": f'{_PLAIN_LOGIN} user_listed="listed-secret";',
            "connection.failed.authentication.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in options.items()},
        },
        metrics="127.0.0.1:0",
    )
    with broker:
        stage = Stage(broker, tokens)
        stage.set_passwords(USERS)
        yield stage
