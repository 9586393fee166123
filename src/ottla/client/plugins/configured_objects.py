"""The objects that a client's options name, made and configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ottla.client.plugins import partitioners
from ottla.client.plugins.interceptors import ConsumerInterceptors, ProducerInterceptors
from ottla.client.plugins.list_serializer import configure, deserializer_of, serializer_of
from ottla.client.plugins.object_lookup import BuiltIn, find, look_up, require
from ottla.client.plugins.partitioners import Partitioner
from ottla.client.plugins.serializers import Deserializer, Serializer
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import code_name
from ottla.config.producer import ProducerConfig
from ottla.config.security import SecurityConfig
from ottla.core.assignors.model import Assignor
from ottla.core.assignors.registry import ASSIGNORS
from ottla.errors import ConfigError

_JAVA_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_BUILT_IN_ASSIGNORS: BuiltIn = {
    **ASSIGNORS,
    **{
        f"org.apache.kafka.clients.consumer.{java}": ASSIGNORS[name]
        for java, name in _JAVA_ASSIGNORS.items()
    },
}


def serializers_of(config: ProducerConfig) -> tuple[Serializer, Serializer]:
    """The serializers of keys and of values."""
    key = serializer_of("key.serializer", config.key_serializer)
    value = serializer_of("value.serializer", config.value_serializer)
    configure(key, config.as_mapping(), is_key=True)
    configure(value, config.as_mapping(), is_key=False)
    return key, value


def deserializers_of(config: ConsumerConfig) -> tuple[Deserializer, Deserializer]:
    """The deserializers of keys and of values."""
    key = deserializer_of("key.deserializer", config.key_deserializer)
    value = deserializer_of("value.deserializer", config.value_deserializer)
    configure(key, config.as_mapping(), is_key=True)
    configure(value, config.as_mapping(), is_key=False)
    return key, value


def partitioner_of(config: ProducerConfig) -> Partitioner:
    """The partitioner; without partitioner.class, the default one, or the sticky one with partitioner.ignore.keys."""
    named = config.partitioner_class
    if named is None:
        named = "sticky" if config.partitioner_ignore_keys else "default"
    option = "partitioner.class"
    found = look_up(option, named, partitioners.BUILT_IN)
    require(option, found, "partition")
    _configure(found, config)
    chosen: Partitioner = found
    return chosen


def producer_interceptors_of(config: ProducerConfig) -> ProducerInterceptors:
    """The interceptors of a producer."""
    methods = ("on_send", "on_acknowledgement")
    return ProducerInterceptors(_interceptors(config, config.interceptor_classes, methods))


def consumer_interceptors_of(config: ConsumerConfig) -> ConsumerInterceptors:
    """The interceptors of a consumer."""
    methods = ("on_consume", "on_commit")
    return ConsumerInterceptors(_interceptors(config, config.interceptor_classes, methods))


def assignors_of(config: ConsumerConfig) -> list[Assignor]:
    """The assignors that a member offers, the preferred one first."""
    option = "partition.assignment.strategy"
    assignors: dict[str, Assignor] = {}
    for named in config.partition_assignment_strategy:
        found = look_up(option, named, _BUILT_IN_ASSIGNORS)
        require(option, found, "assign")
        name = getattr(found, "name", None)
        if not isinstance(name, str) or not name:
            raise ConfigError(
                f"{option}: {code_name(found)} has no name: set its attribute `name`, by which "
                "members of a group find out what they have in common"
            )
        if name in assignors:
            raise ConfigError(f"{option} has two assignors called {name!r}: keep one")
        _configure(found, config)
        assignors[name] = found
    return list(assignors.values())


def token_callback_of(config: SecurityConfig) -> Callable[[], Any]:
    """The callable that returns tokens for OAUTHBEARER."""
    option = "sasl.login.callback.handler.class"
    found = find(option, config.sasl_login_callback_handler_class, {})
    if isinstance(found, type):
        found = look_up(option, found, {})
    if not callable(found):
        raise ConfigError(f"{option}: {code_name(found)} cannot be called: give a function")
    callback: Callable[[], Any] = found
    return callback


def _interceptors(
    config: ClientConfig, named: Iterable[object], methods: tuple[str, ...]
) -> list[object]:
    option = "interceptor.classes"
    found = [look_up(option, each, {}) for each in named]
    for interceptor in found:
        if not any(callable(getattr(interceptor, method, None)) for method in methods):
            raise ConfigError(
                f"{option}: {code_name(interceptor)} has neither {' nor '.join(methods)}: "
                "give an object or a class that has"
            )
        _configure(interceptor, config)
    return found


def _configure(found: object, config: ClientConfig) -> None:
    """Call `configure` of an object that has it, with the client's options by Kafka's names."""
    if callable(getattr(found, "configure", None)):
        found.configure(config.as_mapping())  # type: ignore[attr-defined]
