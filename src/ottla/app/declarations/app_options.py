"""The options of an app: Kafka's client options, shared out among its consumers, producers and admin client."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.app.declarations.listener_spec import Ack, AckMode, RetryPlan
from ottla.client.plugins.configured_objects import deserializers_of, serializers_of
from ottla.client.plugins.object_lookup import find
from ottla.client.plugins.serializers import Deserializer, Serializer
from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import Config, dotted_names, find_option, options_of, unsupported_hint
from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigError
from ottla.schemas.config import RegistryConfig, SerializerConfig

SIDES: Final[Mapping[str, type[ClientConfig]]] = {
    "consumer": ConsumerConfig,
    "producer": ProducerConfig,
    "admin": AdminConfig,
}
# What options need beside them to be checked before the app starts: listeners name their groups.
_STAND_INS: Final[Mapping[str, Mapping[str, object]]] = {
    side: {"bootstrap.servers": "127.0.0.1:9092"} for side in SIDES
} | {"consumer": {"bootstrap.servers": "127.0.0.1:9092", "group.id": "group"}}


_INTERCEPTED: Final = {
    "consumer": ("on_consume", "on_commit"),
    "producer": ("on_send", "on_acknowledgement"),
}
_CONFLUENT_CLASSES: Final = {
    f"io.confluent.kafka.serializers.{java}{end}": ours
    for java, ours in {
        "KafkaAvro": "avro",
        "json.KafkaJsonSchema": "json",
        "protobuf.KafkaProtobuf": "protobuf",
    }.items()
    for end in ("Serializer", "Deserializer")
}


@dataclass(frozen=True)
class AppOptions:
    """What the options of an app mean for its parts; names have dots."""

    consumer: Mapping[str, object] = field(default_factory=dict)
    producer: Mapping[str, object] = field(default_factory=dict)
    admin: Mapping[str, object] = field(default_factory=dict)
    group: str | None = None
    instance: str | None = None
    """group.instance.id: each listener is a member of its own, with its name behind it."""
    transactional_id_prefix: str | None = None
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    key_serializer: Serializer | None = None
    value_serializer: Serializer | None = None
    ack: Ack | None = None
    workers: int | None = None
    is_batch: bool = False
    default_topic: str | None = None
    retry: RetryPlan | None = None
    idle_after_seconds: float | None = None
    starts_paused: bool = False
    tolerates_missing_topics: bool = False
    registry: Mapping[str, object] = field(default_factory=dict)
    """The options of the schema registry's client; empty without one."""
    codecs: Mapping[str, object] = field(default_factory=dict)
    """The options of serializers with schemas, such as auto.register.schemas."""
    schema_format: str | None = None
    """The format that Confluent's serializers in a properties file name."""

    @property
    def bootstrap_servers(self) -> object:
        """The brokers, as they were given; None if none were."""
        return self.consumer.get("bootstrap.servers")

    @property
    def servers_text(self) -> str:
        """The brokers as one text, for messages."""
        servers = self.bootstrap_servers
        if isinstance(servers, Iterable) and not isinstance(servers, str):
            return ",".join(map(str, servers))
        return str(servers or "")

    def with_servers(self, servers: str) -> AppOptions:
        """The same options for another cluster, without encryption and authentication."""
        return replace(
            self,
            consumer=_with_servers(self.consumer, servers),
            producer=_with_servers(self.producer, servers),
            admin=_with_servers(self.admin, servers),
        )


def _with_servers(options: Mapping[str, object], servers: str) -> dict[str, object]:
    plain = {
        name: value
        for name, value in options.items()
        if not name.startswith(("security.", "ssl.", "sasl."))
    }
    return {**plain, "bootstrap.servers": servers}


def knows(config_class: type[Config], name: str) -> bool:
    """Whether a client has an option of this name."""
    options = options_of(config_class)
    return name in options or any(name in each.aliases for each in options.values())


def share_out(options: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Give each option to the clients that know it; ConfigError if none does."""
    sides: dict[str, dict[str, object]] = {side: {} for side in SIDES}
    for name, value in dotted_names(options).items():
        if value is None:
            continue
        takers = [side for side, config_class in SIDES.items() if knows(config_class, name)]
        if not takers:
            raise _unknown(name)
        for side in takers:
            sides[side][name] = value
    return sides


def _unknown(name: str) -> ConfigError:
    for config_class in SIDES.values():
        hint = unsupported_hint(config_class, name)
        if hint is not None:
            return ConfigError(f"{name} is an option of Kafka that Ottla does not have: {hint}")
    for config_class in SIDES.values():
        advice = config_class.advice_for(name)
        if advice is not None:
            return ConfigError(f"{name} is no option of an app: {advice}")
    known = {each for config_class in SIDES.values() for each in options_of(config_class)}
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    advice = f"did you mean {nearest[0]}?" if nearest else "remove it or check its spelling"
    return ConfigError(f"{name!r} is no option of consumers, producers or admin clients: {advice}")


def read_app_options(
    name: str,
    shared: Mapping[str, object],
    own: Mapping[str, Mapping[str, object]],
    **defaults: Any,
) -> AppOptions:
    """The options of an app: `shared` ones by name, `own` ones of one side over them."""
    schemas = _SchemaOptions()
    sides = share_out(schemas.taken_from(shared))
    for side, options in own.items():
        for option, value in schemas.taken_from(options).items():
            find_option(SIDES[side], option)
            sides[side][option] = value
    consumer, producer, admin = sides["consumer"], sides["producer"], sides["admin"]
    for options in sides.values():
        options.setdefault("client.id", name)
    _check(sides)
    _share_interceptors(shared, own, sides)
    group = consumer.pop("group.id", None)
    instance = consumer.pop("group.instance.id", None)
    ack = defaults.pop("ack", None) or _ack_of(consumer)
    prefix = producer.pop("transactional.id", None) or defaults.pop("transactional_id_prefix", None)
    key_deserializer, value_deserializer = _deserializers(consumer)
    key_serializer, value_serializer = _serializers(producer)
    return AppOptions(
        consumer=consumer,
        producer=producer,
        admin=admin,
        group=None if group is None else str(group),
        instance=None if instance is None else str(instance),
        transactional_id_prefix=None if prefix is None else str(prefix),
        key_deserializer=key_deserializer,
        value_deserializer=value_deserializer,
        key_serializer=key_serializer,
        value_serializer=value_serializer,
        ack=ack,
        registry=schemas.registry,
        codecs=schemas.codecs,
        schema_format=schemas.format,
        **defaults,
    )


class _SchemaOptions:
    """The options of schemas among others: the registry's client, serializers, and Confluent's Java classes."""

    def __init__(self) -> None:
        self.registry: dict[str, object] = {}
        self.codecs: dict[str, object] = {}
        self.format: str | None = None

    def taken_from(self, options: Mapping[str, object]) -> dict[str, object]:
        """The other options, with dots."""
        others = {}
        for name, value in dotted_names(options).items():
            if value is None:
                continue
            if name.startswith("schema.registry.") or knows(RegistryConfig, name):
                self.registry[name] = value
            elif knows(SerializerConfig, name):
                self.codecs[name] = value
            elif isinstance(value, str) and value in _CONFLUENT_CLASSES:
                self.format = _CONFLUENT_CLASSES[value]
            else:
                others[name] = value
        return others


def _share_interceptors(
    shared: Mapping[str, object],
    own: Mapping[str, Mapping[str, object]],
    sides: Mapping[str, dict[str, object]],
) -> None:
    """Give interceptors that were given for all clients to the clients whose calls they know."""
    option = "interceptor.classes"
    given = dotted_names(shared).get(option)
    if given is None:
        return
    texts = given.split(",") if isinstance(given, str) else given
    named = list(texts) if isinstance(texts, list | tuple) else [texts]
    found = [find(option, each.strip() if isinstance(each, str) else each, {}) for each in named]
    for side, methods in _INTERCEPTED.items():
        if option in dotted_names(own.get(side, {})):
            continue
        knowing = [each for each in found if any(hasattr(each, method) for method in methods)]
        if knowing:
            sides[side][option] = knowing
        else:
            sides[side].pop(option, None)
    if not any(option in sides[side] for side in _INTERCEPTED):
        raise ConfigError(f"{option}: {given!r} has none of the methods of interceptors")


def _check(sides: Mapping[str, Mapping[str, object]]) -> None:
    """Let each client's own rules check its options, before anything connects."""
    for side, config_class in SIDES.items():
        config_class.read({**_STAND_INS[side], **sides[side]})


def _ack_of(consumer: dict[str, object]) -> Ack | None:
    """`enable.auto.commit=true` means: finished records, every interval. Listeners commit by themselves."""
    config = ConsumerConfig.read({**_STAND_INS["consumer"], **consumer})
    is_given = "enable.auto.commit" in consumer
    interval_is_given = "auto.commit.interval.ms" in consumer
    consumer.pop("enable.auto.commit", None)
    consumer.pop("auto.commit.interval.ms", None)
    if (is_given or interval_is_given) and config.enable_auto_commit:
        return Ack(AckMode.EVERY, seconds=config.auto_commit_interval_ms / 1000)
    return None


def _deserializers(consumer: dict[str, object]) -> tuple[Deserializer | None, Deserializer | None]:
    """The deserializers that were given; the consumers themselves read bytes."""
    if not {"key.deserializer", "value.deserializer"} & consumer.keys():
        return None, None
    config = ConsumerConfig.read({**_STAND_INS["consumer"], **consumer})
    key, value = deserializers_of(config)
    has_key = consumer.pop("key.deserializer", None) is not None
    has_value = consumer.pop("value.deserializer", None) is not None
    return (key if has_key else None), (value if has_value else None)


def _serializers(producer: dict[str, object]) -> tuple[Serializer | None, Serializer | None]:
    if not {"key.serializer", "value.serializer"} & producer.keys():
        return None, None
    config = ProducerConfig.read({**_STAND_INS["producer"], **producer})
    key, value = serializers_of(config)
    has_key = producer.pop("key.serializer", None) is not None
    has_value = producer.pop("value.serializer", None) is not None
    return (key if has_key else None), (value if has_value else None)
