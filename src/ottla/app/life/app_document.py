"""What an app declares, as the AsyncAPI document needs it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.app.declarations.annotations import Header, RecordPart, To
from ottla.app.declarations.compiled_handler import CompiledHandler
from ottla.app.declarations.handler_signature import Argument, FromDependency, FromRecord
from ottla.app.declarations.listener import Listener
from ottla.app.letters.topic_names import is_letter_topic
from ottla.app.life.asyncapi import (
    DocumentedApp,
    DocumentedListener,
    DocumentedTopic,
    SentType,
    document_of,
)

if TYPE_CHECKING:
    from ottla.app.application import App


def document_of_app(app: App, version: str) -> dict[str, Any]:
    """The document of an app; retry topics and dead letters are its own business and not in it."""
    consumer = app.options.consumer
    mechanism = consumer.get("sasl.mechanism")
    protocol = str(consumer.get("security.protocol", "PLAINTEXT"))
    return document_of(
        DocumentedApp(
            title=app.name,
            version=version,
            bootstrap_servers=_servers(consumer),
            security_protocol=protocol,
            sasl_mechanism=str(mechanism) if protocol.startswith("SASL") and mechanism else None,
            listeners=[
                _documented(listener)
                for listener in app.listeners.values()
                if not _is_for_letters(listener)
            ],
            topics=[
                DocumentedTopic(
                    name=topic.name,
                    partitions=topic.partitions,
                    replicas=topic.replication_factor,
                    configs=topic.config,
                )
                for topic in app.topics.values()
            ],
        )
    )


def _servers(consumer: Mapping[str, object]) -> Sequence[str]:
    servers = consumer.get("bootstrap.servers", ())
    if isinstance(servers, str):
        return [each.strip() for each in servers.split(",")]
    return [str(each) for each in servers] if isinstance(servers, Sequence) else []


def _is_for_letters(listener: Listener[Any, Any]) -> bool:
    topics = listener.spec.topics
    return isinstance(topics, tuple) and all(is_letter_topic(topic) for topic in topics)


def _documented(listener: Listener[Any, Any]) -> DocumentedListener:
    spec, handler = listener.spec, listener.spec.handler
    assert isinstance(handler, CompiledHandler)
    arguments = _record_arguments(handler.signature.arguments)
    keys = [each.wanted for each in arguments if each.part is RecordPart.KEY]
    # Results that name no topic are replies to requests, unless each says by itself where it goes.
    replies = [
        each.wanted
        for each in handler.results.declared
        if each.marker is None and each.wanted is not Any and each.classes != (To,)
    ]
    return DocumentedListener(
        name=spec.name,
        topics=spec.topics,
        group=spec.group,
        value_type=listener.value_type,
        key_type=keys[0] if keys else bytes,
        header_types={
            each.part.name: each.wanted for each in arguments if isinstance(each.part, Header)
        },
        sends=[SentType(topic, wanted) for topic, wanted in listener.sends],
        is_batch=handler.is_batch,
        description=inspect.getdoc(listener.function),
        replies_with=replies[0] if replies else None,
    )


def _record_arguments(arguments: Sequence[Argument]) -> list[FromRecord]:
    """The parts of the record that a handler and its dependencies ask for."""
    found = [each for each in arguments if isinstance(each, FromRecord)]
    for each in arguments:
        if isinstance(each, FromDependency):
            found += _record_arguments(each.dependency.arguments)
    return found
