"""Which member a consumer gets by group.protocol."""

from __future__ import annotations

from ottla.client.aio.group.protocols import MEMBERS
from ottla.config.client import read_client_config
from ottla.config.consumer import ConsumerConfig
from ottla.errors import ConfigError


def is_accepted(protocol: str) -> bool:
    options = {"bootstrap.servers": "127.0.0.1:9092", "group.id": "g", "group.protocol": protocol}
    try:
        read_client_config(ConsumerConfig, options, {})
    except ConfigError:
        return False
    return True


def test_every_group_protocol_that_the_options_accept_has_a_member() -> None:
    assert [name for name in ("classic", "consumer") if is_accepted(name)] == list(MEMBERS)
