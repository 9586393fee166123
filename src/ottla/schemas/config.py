"""The options of registry clients, serializers and deserializers, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from ottla.config.options import (
    INT_MAX,
    Config,
    Importance,
    OptionType,
    dotted_names,
    option,
    options_of,
)
from ottla.config.security import SecurityConfig
from ottla.errors import ConfigError

TLS_PREFIX = "schema.registry."
_TLS_NAMES = f"{TLS_PREFIX}ssl."
_PEM = "give PEM files: schema.registry.ssl.truststore.location and schema.registry.ssl.keystore.location"
_OAUTH = "give bearer.auth.token, or a callable that returns tokens"


@dataclass(frozen=True)
class RegistryConfig(Config):
    """The options of a registry's client, besides those of TLS (schema.registry.ssl.*)."""

    kind: ClassVar[str] = "schema registry option"
    unsupported: ClassVar[Mapping[str, str]] = {
        "ssl.": _PEM,
        "schema.registry.ssl.engine.factory.class": _PEM,
        "bearer.auth.issuer.": _OAUTH,
        "bearer.auth.client.": _OAUTH,
        "bearer.auth.scope": _OAUTH,
    }

    schema_registry_url: tuple[str, ...] = option(
        OptionType.LIST,
        (),
        doc="The addresses of the registries, tried in turn.",
        importance=Importance.HIGH,
        aliases=("url",),
    )
    basic_auth_credentials_source: str | None = option(
        OptionType.STRING,
        None,
        choices=("URL", "USER_INFO"),
        doc="Where user name and password come from: the address, or basic.auth.user.info. The default is the one of "
        "the two that has them.",
    )
    basic_auth_user_info: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="User name and password, as name:password.",
        aliases=("schema.registry.basic.auth.user.info",),
    )
    bearer_auth_token: object = option(
        OptionType.CLASS,
        None,
        doc="A token, or a callable without arguments that returns one before each request.",
    )
    bearer_auth_logical_cluster: str | None = option(
        OptionType.STRING, None, doc="The logical cluster that a token is for (Confluent Cloud)."
    )
    bearer_auth_identity_pool_id: str | None = option(
        OptionType.STRING, None, doc="The identity pool that a token is for (Confluent Cloud)."
    )
    http_connect_timeout_ms: int = option(
        OptionType.INT, 60_000, at_least=1, doc="How long to wait for a connection."
    )
    http_read_timeout_ms: int = option(
        OptionType.INT, 60_000, at_least=1, doc="How long to wait for an answer."
    )
    max_retries: int = option(
        OptionType.INT,
        3,
        at_least=0,
        doc="How often a request is repeated when no registry could answer it.",
    )
    retries_wait_ms: int = option(
        OptionType.INT, 1000, at_least=0, doc="The pause before the first repetition."
    )
    retries_max_wait_ms: int = option(
        OptionType.INT, 20_000, at_least=0, doc="The longest pause; pauses double."
    )
    max_schemas_per_subject: int = option(
        OptionType.INT,
        1000,
        at_least=1,
        at_most=INT_MAX,
        doc="How many schemas are cached; the one that was not used for the longest time is dropped.",
        aliases=("cache.capacity",),
    )
    latest_cache_ttl_sec: float = option(
        OptionType.DOUBLE,
        -1.0,
        doc="How long the latest version of a subject is cached; -1: for ever.",
        aliases=("cache.latest.ttl.sec",),
    )
    proxy: str | None = option(OptionType.STRING, None, doc="The address of an HTTP proxy.")

    def validate(self) -> None:
        """Check the addresses and the credentials."""
        if not self.schema_registry_url:
            raise ConfigError("schema.registry.url is missing: give the registry's address")
        for url in self.schema_registry_url:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ConfigError(
                    f"schema.registry.url={url!r} is no address: write http://host:port"
                )
        in_url = any(urlsplit(url).username is not None for url in self.schema_registry_url)
        given = self.basic_auth_user_info
        if self.basic_auth_credentials_source == "USER_INFO" and given is None:
            raise ConfigError(
                "basic.auth.credentials.source is USER_INFO: give basic.auth.user.info"
            )
        if given is not None and ":" not in given:
            raise ConfigError("basic.auth.user.info must be name:password")
        if given is not None and in_url:
            raise ConfigError(
                "basic.auth.user.info is given, and schema.registry.url has a user name too: remove one"
            )
        if self.bearer_auth_token is not None and (in_url or given is not None):
            raise ConfigError("bearer.auth.token and a user name are both given: remove one")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses without credentials and without a slash at their end."""
        found = []
        for url in self.schema_registry_url:
            parts = urlsplit(url)
            host = parts.netloc.rpartition("@")[2]
            found.append(f"{parts.scheme}://{host}{parts.path}".rstrip("/"))
        return tuple(found)

    @property
    def user_info(self) -> tuple[str, str] | None:
        """User name and password."""
        if self.basic_auth_user_info is not None:
            name, _, password = self.basic_auth_user_info.partition(":")
            return name, password
        for url in self.schema_registry_url:
            parts = urlsplit(url)
            if parts.username is not None:
                return unquote(parts.username), unquote(parts.password or "")
        return None


@dataclass(frozen=True)
class SerializerConfig(Config):
    """The options of serializers."""

    kind: ClassVar[str] = "serializer option"

    auto_register_schemas: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="Whether a schema that its subject lacks is registered. With use.latest.version or use.schema.id it is "
        "false.",
    )
    use_latest_version: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether to write with the latest version of the subject instead of the program's schema.",
    )
    use_schema_id: int | None = option(
        OptionType.INT, None, at_least=0, doc="The id of the schema to write with."
    )
    normalize_schemas: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Whether the registry compares schemas in their normal form.",
    )
    latest_compatibility_strict: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="With use.latest.version: whether the latest version has to be able to read the program's schema.",
    )
    subject_name_strategy: object = option(
        OptionType.CLASS,
        "topic",
        doc="The subject of a schema: topic (orders-value), record (com.acme.Order), topic_record "
        "(orders-com.acme.Order), or a function of topic, is_key and the record's name.",
        aliases=(
            "subject.name.strategy.type",
            "key.subject.name.strategy",
            "value.subject.name.strategy",
        ),
    )
    json_fail_invalid_schema: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="JSON Schema: whether each value is checked against the schema; Confluent's Java default is false.",
        aliases=("validate",),
    )

    def adjust_defaults(self) -> None:
        """A serializer that takes a schema of the registry does not register its own."""
        chosen = self.use_latest_version or self.use_schema_id is not None
        if chosen and "auto.register.schemas" not in self.given:
            object.__setattr__(self, "auto_register_schemas", False)

    def validate(self) -> None:
        """Check that one schema is chosen."""
        for name, chosen in (
            ("use.latest.version", self.use_latest_version),
            ("use.schema.id", self.use_schema_id is not None),
        ):
            if chosen and self.auto_register_schemas:
                raise ConfigError(
                    f"{name} and auto.register.schemas are both given: set auto.register.schemas to false"
                )
        if self.use_latest_version and self.use_schema_id is not None:
            raise ConfigError("use.latest.version and use.schema.id are both given: remove one")


@dataclass(frozen=True)
class DeserializerConfig(Config):
    """The options of deserializers."""

    kind: ClassVar[str] = "deserializer option"

    use_latest_version: bool = option(
        OptionType.BOOLEAN,
        False,
        doc="Avro: whether records are read as the latest version of the subject has them.",
    )
    subject_name_strategy: object = option(
        OptionType.CLASS,
        "topic",
        doc="The subject of a schema, as in serializers; used with use.latest.version.",
        aliases=(
            "subject.name.strategy.type",
            "key.subject.name.strategy",
            "value.subject.name.strategy",
        ),
    )
    json_fail_invalid_schema: bool = option(
        OptionType.BOOLEAN,
        True,
        doc="JSON Schema: whether each value is checked against a schema; Confluent's Java default is false.",
        aliases=("validate",),
    )


def read_registry_config(
    options: Mapping[str, object],
) -> tuple[RegistryConfig, SecurityConfig]:
    """The options of a registry's client, by Confluent's names or as keywords, and those of TLS."""
    dotted = dotted_names(options)
    tls = {name: value for name, value in dotted.items() if name.startswith(_TLS_NAMES)}
    config = RegistryConfig.read({name: dotted[name] for name in dotted if name not in tls})
    plain = {name.removeprefix(TLS_PREFIX): value for name, value in tls.items()}
    try:
        security = SecurityConfig.read({"security.protocol": "SSL", **plain} if plain else {})
    except ConfigError as error:
        raise ConfigError(f"schema.registry.ssl: {error}") from error
    return config, security


def is_registry_option(name: str) -> bool:
    """Whether an option is one of the registry's client; the rest are the serializer's."""
    dotted = name.replace("_", ".")
    known = options_of(RegistryConfig)
    return (
        dotted.startswith(_TLS_NAMES)
        or dotted in known
        or any(dotted in each.aliases for each in known.values())
    )
