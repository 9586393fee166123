"""No option of a client is accepted and ignored."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.config.admin import AdminConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import Config, options_of
from ottla.config.producer import ProducerConfig

PACKAGE = Path(__file__).parents[3] / "src" / "ottla"
CODE = [PACKAGE / "client", PACKAGE / "tls"]
CLIENTS: list[type[Config]] = [ProducerConfig, ConsumerConfig, AdminConfig]

ONE_VALUE = {"enable.metrics.push", "transaction.two.phase.commit.enable"}
"""Options that accept only the value of what is done anyway."""

READ_THROUGH = {
    "acks": "required_acks",
    "auto.offset.reset": "offset_reset",
    "isolation.level": "reads_committed",
    "sasl.jaas.config": "sasl_credentials",
    "sasl.password": "sasl_credentials",
    "sasl.username": "sasl_credentials",
    "security.protocol": "uses_tls",
    "ssl.cipher.suites": "openssl_ciphers",
    "ssl.enabled.protocols": "tls_versions",
    "ssl.keystore.type": "store_type",
    "ssl.protocol": "tls_versions",
    "ssl.truststore.type": "store_type",
}
"""Properties of the config classes that make something of an option."""


def words_of_the_client() -> set[str]:
    """The names that the client's code uses."""
    texts = [path.read_text(encoding="utf-8") for room in CODE for path in room.rglob("*.py")]
    return {word for text in texts for word in re.findall(r"\w+", text)}


WORDS = words_of_the_client()


def by_name(name: str) -> bool:
    """Whether serializers read it out of what `configure` gives them."""
    return name.endswith("serializer.encoding") or name.startswith("default.list.")


@pytest.mark.parametrize("config_class", CLIENTS)
def test_every_option_is_read_by_the_client(config_class: type[Config]) -> None:
    unread = [
        name
        for name, option in options_of(config_class).items()
        if name not in ONE_VALUE and not by_name(name)
        if READ_THROUGH.get(name, option.field_name) not in WORDS
    ]
    assert unread == []


@pytest.mark.parametrize("config_class", CLIENTS)
def test_properties_that_read_options_exist(config_class: type[Config]) -> None:
    for name, prop in READ_THROUGH.items():
        if name in options_of(config_class):
            found = getattr(config_class, prop)
            assert isinstance(found, property) or callable(found)
