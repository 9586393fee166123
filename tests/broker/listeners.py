"""A listener for connections that a test makes without sockets."""

from __future__ import annotations

from ottla.broker.network.listener import Listener
from ottla.config.listeners import DEFAULT_LISTENER, ListenerSettings
from ottla.model import Endpoint


def plaintext_listener() -> Listener:
    return Listener(ListenerSettings(DEFAULT_LISTENER, "PLAINTEXT", Endpoint("127.0.0.1", 0), None))
