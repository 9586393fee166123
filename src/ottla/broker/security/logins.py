"""The logins of a node: its listeners with SASL, and what they share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.broker.node import Node
from ottla.broker.security.login_exchanges import KnownUsers, PasswordCheck
from ottla.broker.security.pending_logins import PendingLogins
from ottla.broker.security.sasl_listener import SaslListener, SaslSettings
from ottla.broker.security.token_keys import KeySource, TokenKeys
from ottla.broker.security.token_verifier import TokenVerifier, check_library
from ottla.config.listeners import ListenerSettings
from ottla.config.sasl import OAUTHBEARER, PLAIN, MechanismConfig
from ottla.core.security.token_claims import TokenRules
from ottla.events import EventLog
from ottla.failed_logins import FailedLogins

logger = EventLog(__name__)

# Passwords are hashed and signatures checked on these.
THREADS: Final = 2


class Logins:
    """The logins of a node's listeners; `start` is called before they accept connections."""

    def __init__(self, node: Node, listeners: Iterable[ListenerSettings]) -> None:
        self._node = node
        self.pending = PendingLogins()
        self.failed = FailedLogins()
        self._names = [listener.name for listener in listeners if listener.uses_sasl]
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="ottla-login")
        # An issuer of tokens that does not answer must not keep others from logging in.
        self._key_executor = ThreadPoolExecutor(1, thread_name_prefix="ottla-token-keys")
        self._keys: dict[KeySource, TokenKeys] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.by_listener: dict[str, SaslListener] = {}

    async def start(self) -> None:
        """Reads the keys of tokens, and begins to keep them fresh."""
        if not self._names:
            return
        users = KnownUsers(
            self._node.cluster.catalog.users, await self._node.cluster.login_secret()
        )
        for name in self._names:
            self.by_listener[name] = self._listener(name, users)
        for keys in self._keys.values():
            await keys.fetch_first()
            self._tasks.append(asyncio.get_running_loop().create_task(keys.run()))

    def _listener(self, name: str, users: KnownUsers) -> SaslListener:
        options = self._node.options.config.of_listener(name)
        by_mechanism = {
            mechanism: options.of_mechanism(mechanism)
            for mechanism in options.sasl_enabled_mechanisms
        }
        listed: Mapping[str, str] = {}
        tokens = None
        for mechanism, config in by_mechanism.items():
            if mechanism == PLAIN:
                listed = config.listed_passwords(PLAIN, name)
            elif mechanism == OAUTHBEARER:
                tokens = self._token_verifier(config)
        settings = SaslSettings(
            mechanisms=options.sasl_enabled_mechanisms,
            max_reauth_ms={
                mechanism: config.connections_max_reauth_ms
                for mechanism, config in by_mechanism.items()
            },
            max_receive_bytes=options.sasl_server_max_receive_size,
        )
        if tokens is None and not listed and not self._node.cluster.catalog.users.names():
            logger.warning(
                "listener_without_users",
                "nobody can log in to listener %(listener)s yet: there are no users; --user NAME:@FILE makes one",
                listener=name,
            )
        passwords = PasswordCheck(users, listed, self._executor)
        return SaslListener(
            name,
            node=self._node,
            settings=settings,
            users=users,
            passwords=passwords,
            tokens=tokens,
            failed_logins=self.failed,
        )

    def _token_verifier(self, config: MechanismConfig) -> TokenVerifier:
        check_library()
        assert config.sasl_oauthbearer_jwks_endpoint_url is not None
        source = KeySource(
            url=config.sasl_oauthbearer_jwks_endpoint_url,
            refresh_ms=config.sasl_oauthbearer_jwks_endpoint_refresh_ms,
            retry_backoff_ms=config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
            retry_backoff_max_ms=config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        )
        keys = self._keys.get(source)
        if keys is None:
            keys = self._keys[source] = TokenKeys(source, self._key_executor)
        rules = TokenRules(
            issuer=config.sasl_oauthbearer_expected_issuer,
            audiences=config.sasl_oauthbearer_expected_audience or (),
            clock_skew_seconds=config.sasl_oauthbearer_clock_skew_seconds,
            subject_claim=config.sasl_oauthbearer_sub_claim_name,
            scope_claim=config.sasl_oauthbearer_scope_claim_name,
        )
        return TokenVerifier(keys, rules, self._node.cluster.clock, self._executor)

    def refuses(self, host: str) -> bool:
        """Whether an address has to wait, because too many logins from there have failed."""
        return self.failed.is_too_much(host, self._node.cluster.clock.monotonic_seconds())

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for executor in (self._executor, self._key_executor):
            executor.shutdown(wait=False, cancel_futures=True)
