"""The registry's client of the views of records: it gives up soon, because a search would wait for each record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.config.options import dotted_names
from ottla.console.records.decoder import RecordDecoder
from ottla.console.records.schema_values import SchemaValues
from ottla.console.settings import ConsoleSettings
from ottla.schemas.client.aio import AsyncSchemaRegistryClient
from ottla.schemas.client.exchange import Requests
from ottla.schemas.config import read_registry_config

_QUICK: Final[Mapping[str, object]] = {
    "max.retries": 1,
    "retries.wait.ms": 200,
    "http.connect.timeout.ms": 3_000,
    "http.read.timeout.ms": 5_000,
    # New versions of a subject are seen soon.
    "latest.cache.ttl.sec": 5.0,
}


def record_decoder(settings: ConsoleSettings) -> RecordDecoder:
    """The decoder of a console; without a registry, it does not know schemas."""
    if settings.registry_url is None:
        return RecordDecoder(None)
    given = dotted_names(settings.registry_options)
    options = {**_QUICK, **given, "schema.registry.url": settings.registry_url}
    requests = Requests(read_registry_config(options)[0])
    return RecordDecoder(SchemaValues(AsyncSchemaRegistryClient(options), requests))
