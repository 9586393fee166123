"""Properties of applications: Kafka's own names, or Spring Boot's `spring.kafka.*` keys; .properties or YAML."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.app.declarations.app_options import SIDES, knows
from ottla.app.declarations.listener_spec import Ack, AckMode, RetryPlan
from ottla.config import properties
from ottla.durations import seconds_of
from ottla.errors import ConfigError

log = logging.getLogger("ottla.app")

_PREFIX: Final = "spring.kafka."
_PLACEHOLDER: Final = re.compile(r"\$\{([^:}]+)(?::([^}]*))?\}")
_SIZE: Final = re.compile(r"([0-9]+)\s*(B|KB|MB|GB)?", re.IGNORECASE)
_SIZES: Final = {"": 1, "B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}


@dataclass
class PropertiesRead:
    """What a file says: options for all clients, for one side of them, and defaults of listeners and template."""

    shared: dict[str, object] = field(default_factory=dict)
    own: dict[str, dict[str, object]] = field(default_factory=lambda: {side: {} for side in SIDES})
    defaults: dict[str, Any] = field(default_factory=dict)
    app_name: str | None = None


def load_properties(path: Path) -> PropertiesRead:
    """Read a file; ConfigError names a key that is not known."""
    pairs = _load_yaml(path) if path.suffix in (".yml", ".yaml") else properties.load(path)
    try:
        return read_properties(pairs)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_properties(pairs: Mapping[str, str]) -> PropertiesRead:
    """The meaning of properties: if there are `spring.*` keys, the others belong to the application."""
    pairs = {key.strip(): _filled(value, pairs).strip() for key, value in pairs.items()}
    if not any(key.startswith("spring.") for key in pairs):
        return PropertiesRead(shared=dict(pairs))
    read = PropertiesRead(app_name=pairs.get("spring.application.name"))
    spring = {}
    for key, value in pairs.items():
        if key.startswith(_PREFIX):
            spring[key.removeprefix(_PREFIX)] = value
        elif any(knows(config_class, key) for config_class in SIDES.values()):
            log.warning(
                "%s is not read from a file with spring.* keys: write %sproperties.%s",
                key,
                _PREFIX,
                key,
            )
    _read_spring(spring, read)
    return read


def _filled(text: str, pairs: Mapping[str, str], depth: int = 0) -> str:
    """The text with `${NAME:default}` replaced by other properties and the environment."""

    def value_of(match: re.Match[str]) -> str:
        name, default = match[1].strip(), match[2]
        if name in pairs and depth < 10:
            return _filled(pairs[name], pairs, depth + 1)
        for candidate in (name, re.sub(r"[.-]", "_", name).upper()):
            if candidate in os.environ:
                return os.environ[candidate]
        if default is None:
            raise ConfigError(f"${{{name}}} has no value: set it, or write ${{{name}:default}}")
        return default

    return _PLACEHOLDER.sub(value_of, text)


def _load_yaml(path: Path) -> dict[str, str]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no YAML: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} has no properties")
    return dict(_flattened("", document))


def _flattened(prefix: str, node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _flattened(f"{prefix}.{key}" if prefix else str(key), value)
    elif isinstance(node, list):
        yield prefix, ",".join(map(str, node))
    elif isinstance(node, bool):
        yield prefix, "true" if node else "false"
    elif node is not None:
        yield prefix, str(node)


# Spring's keys


def _canonical(key: str) -> str:
    """Spring takes kebab case, camel case and underscores alike."""
    return re.sub(r"[-_]", "", key).lower()


def _milliseconds(text: str) -> str:
    """Spring's durations: a number is milliseconds, or it has a unit."""
    if text.isdigit():
        return text
    return str(round(seconds_of(text) * 1000))


def _bytes(text: str) -> str:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ConfigError(f"{text!r} is no size: write 16384 or 16KB")
    return str(int(match[1]) * _SIZES[(match[2] or "").upper()])


def _same(text: str) -> str:
    return text


_Rule = tuple[str, Callable[[str], str]]

_COMMON: Final[dict[str, _Rule]] = {
    "bootstrap-servers": ("bootstrap.servers", _same),
    "client-id": ("client.id", _same),
    "security.protocol": ("security.protocol", _same),
    "ssl.key-password": ("ssl.key.password", _same),
    "ssl.key-store-location": ("ssl.keystore.location", lambda text: text.removeprefix("file:")),
    "ssl.key-store-type": ("ssl.keystore.type", _same),
    "ssl.key-store-key": ("ssl.keystore.key", _same),
    "ssl.key-store-certificate-chain": ("ssl.keystore.certificate.chain", _same),
    "ssl.key-store-password": ("ssl.keystore.password", _same),
    "ssl.trust-store-location": (
        "ssl.truststore.location",
        lambda text: text.removeprefix("file:"),
    ),
    "ssl.trust-store-type": ("ssl.truststore.type", _same),
    "ssl.trust-store-certificates": ("ssl.truststore.certificates", _same),
    "ssl.trust-store-password": ("ssl.truststore.password", _same),
    "ssl.protocol": ("ssl.protocol", _same),
}
_OWN: Final[dict[str, dict[str, _Rule]]] = {
    "consumer": {
        "auto-commit-interval": ("auto.commit.interval.ms", _milliseconds),
        "auto-offset-reset": ("auto.offset.reset", _same),
        "enable-auto-commit": ("enable.auto.commit", _same),
        "fetch-max-wait": ("fetch.max.wait.ms", _milliseconds),
        "fetch-min-size": ("fetch.min.bytes", _bytes),
        "group-id": ("group.id", _same),
        "heartbeat-interval": ("heartbeat.interval.ms", _milliseconds),
        "isolation-level": ("isolation.level", lambda text: text.lower().replace("-", "_")),
        "key-deserializer": ("key.deserializer", _same),
        "value-deserializer": ("value.deserializer", _same),
        "max-poll-interval": ("max.poll.interval.ms", _milliseconds),
        "max-poll-records": ("max.poll.records", _same),
    },
    "producer": {
        "acks": ("acks", _same),
        "batch-size": ("batch.size", _bytes),
        "buffer-memory": ("buffer.memory", _bytes),
        "compression-type": ("compression.type", _same),
        "key-serializer": ("key.serializer", _same),
        "value-serializer": ("value.serializer", _same),
        "retries": ("retries", _same),
        "transaction-id-prefix": ("transactional.id", _same),
    },
    "admin": {},
}
# Keys that change nothing here, each with the reason: they are named in a warning.
_WITHOUT_MEANING: Final = {
    "admin.auto-create": "app.topic(…) declares topics",
    "admin.fail-fast": "an app without a broker does not start",
    "admin.modify-topic-configs": "differences of topics are logged",
    "admin.close-timeout": "the admin client ends at once",
    "admin.operation-timeout": "use spring.kafka.admin.properties.default.api.timeout.ms",
    "listener.async-acks": "acknowledgements may come in any order",
    "listener.change-consumer-thread-name": "consumers have no threads here",
    "listener.client-id": "use spring.kafka.client-id",
    "listener.idle-between-polls": "handlers set the pace",
    "listener.idle-partition-event-interval": "use listener.idle-event-interval",
    "listener.immediate-stop": "records in hand are finished, then the app stops",
    "listener.log-container-config": "the configuration is not logged",
    "listener.monitor-interval": "stalls are told at once",
    "listener.no-poll-threshold": "stalls are told by themselves",
    "listener.observation-enabled": "traces follow OpenTelemetry's own settings",
    "listener.auth-exception-retry-interval": "use retry.backoff.ms",
    "listener.poll-timeout": "records come as soon as they are there",
    "template.observation-enabled": "traces follow OpenTelemetry's own settings",
    "streams.": "there is no Kafka Streams here",
}
_LISTENER: Final = (
    "listener.ack-count",
    "listener.ack-mode",
    "listener.ack-time",
    "listener.auto-startup",
    "listener.concurrency",
    "listener.idle-event-interval",
    "listener.missing-topics-fatal",
    "listener.type",
)
_RETRY: Final = (
    "retry.topic.enabled",
    "retry.topic.attempts",
    "retry.topic.delay",
    "retry.topic.multiplier",
    "retry.topic.max-delay",
    "retry.topic.backoff.delay",
    "retry.topic.backoff.multiplier",
    "retry.topic.backoff.max-delay",
)
_TEMPLATE: Final = ("template.default-topic", "template.transaction-id-prefix")
_SPRING_CLASSES: Final = {
    f"org.springframework.kafka.support.serializer.{java}": ours
    for java, ours in {
        "JsonSerializer": "json",
        "JsonDeserializer": "json",
        "JacksonJsonSerializer": "json",
        "JacksonJsonDeserializer": "json",
        "StringOrBytesSerializer": "string",
        "ByteArrayJsonMessageConverter": "json",
    }.items()
}
_DELEGATING: Final = "org.springframework.kafka.support.serializer.ErrorHandlingDeserializer"


def _read_spring(spring: Mapping[str, str], read: PropertiesRead) -> None:
    known = {_canonical(key): key for key in (*_LISTENER, *_RETRY, *_TEMPLATE)}
    settings: dict[str, str] = {}
    for key, value in spring.items():
        if _is_client_option(key, value, read):
            continue
        name = known.get(_canonical(key))
        if name is not None:
            settings[name] = value
            continue
        reason = _reason_without_meaning(key)
        if reason is None:
            raise _unknown_key(key)
        log.warning("%s%s changes nothing: %s", _PREFIX, key, reason)
    for side in SIDES:
        _translate_classes(side, read.own[side])
    read.defaults.update(_defaults_of(settings))


def _is_client_option(key: str, value: str, read: PropertiesRead) -> bool:
    """Whether a key is an option of the clients, which is then noted."""
    side, separator, rest = key.partition(".")
    target: dict[str, object]
    if separator and side in SIDES:
        target, rules = read.own[side], {**_COMMON, **_OWN[side]}
    else:
        target, rules, rest = read.shared, _COMMON, key
    if rest.startswith("properties."):
        target[rest.removeprefix("properties.")] = value
        return True
    if rest.startswith("properties[") and rest.endswith("]"):
        target[rest[len("properties[") : -1]] = value
        return True
    for name, (option, convert) in rules.items():
        if _canonical(name) == _canonical(rest):
            target[option] = convert(value)
            return True
    return False


def _reason_without_meaning(key: str) -> str | None:
    canonical = _canonical(key)
    for name, reason in _WITHOUT_MEANING.items():
        if canonical == _canonical(name) or (
            name.endswith(".") and canonical.startswith(_canonical(name))
        ):
            return reason
    return None


def _unknown_key(key: str) -> ConfigError:
    names = [
        *_COMMON,
        *(f"{side}.{name}" for side, rules in _OWN.items() for name in rules),
        *_LISTENER,
        *_RETRY,
        *_TEMPLATE,
    ]
    nearest = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    advice = (
        f"did you mean {_PREFIX}{nearest[0]}?" if nearest else "remove it or check its spelling"
    )
    return ConfigError(f"{_PREFIX}{key} is not known: {advice}")


def _translate_classes(side: str, options: dict[str, object]) -> None:
    """Spring's own (de)serializers by their Java names; its other options of them have no meaning here."""
    for what in ("key", "value"):
        for option in (f"{what}.serializer", f"{what}.deserializer"):
            if options.get(option) == _DELEGATING:
                options[option] = options.get(f"spring.deserializer.{what}.delegate.class", "bytes")
            named = options.get(option)
            if isinstance(named, str) and named in _SPRING_CLASSES:
                options[option] = _SPRING_CLASSES[named]
    for name in [each for each in options if each.startswith("spring.")]:
        value = options.pop(name)
        if not name.startswith("spring.deserializer."):
            log.warning(
                "%s%s.properties.%s=%s changes nothing: the annotations of handlers say what JSON becomes",
                _PREFIX,
                side,
                name,
                value,
            )


def _defaults_of(settings: Mapping[str, str]) -> dict[str, Any]:
    """Defaults of listeners and of the template."""
    defaults: dict[str, Any] = {}
    if (mode := settings.get("listener.ack-mode")) is not None:
        defaults["ack"] = _ack(mode, settings)
    if (concurrency := settings.get("listener.concurrency")) is not None:
        defaults["workers"] = _number("listener.concurrency", concurrency)
    if (kind := settings.get("listener.type")) is not None:
        if kind.lower() not in ("single", "batch"):
            raise ConfigError(f"{_PREFIX}listener.type={kind!r}: write single or batch")
        defaults["is_batch"] = kind.lower() == "batch"
    if (topic := settings.get("template.default-topic")) is not None:
        defaults["default_topic"] = topic
    if (prefix := settings.get("template.transaction-id-prefix")) is not None:
        defaults["transactional_id_prefix"] = prefix
    if (interval := settings.get("listener.idle-event-interval")) is not None:
        defaults["idle_after_seconds"] = int(_milliseconds(interval)) / 1000
    if settings.get("listener.auto-startup", "true").lower() == "false":
        defaults["starts_paused"] = True
    if settings.get("listener.missing-topics-fatal", "true").lower() == "false":
        defaults["tolerates_missing_topics"] = True
    retry = _retry(settings)
    if retry is not None:
        defaults["retry"] = retry
    return defaults


def _number(key: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{_PREFIX}{key}={text!r} is no number from 1 on")
    return int(text)


def _ack(mode: str, settings: Mapping[str, str]) -> Ack:
    count = settings.get("listener.ack-count")
    time = settings.get("listener.ack-time")
    records = None if count is None else _number("listener.ack-count", count)
    seconds = None if time is None else int(_milliseconds(time)) / 1000
    name = _canonical(mode)
    if name in ("manual", "manualimmediate"):
        return Ack(AckMode.MANUAL)
    if name in ("record", "batch"):
        return Ack(AckMode(name))
    if name not in ("time", "count", "counttime"):
        raise ConfigError(
            f"{_PREFIX}listener.ack-mode={mode!r}: write record, batch, time, count, count-time or manual"
        )
    if "count" in name and records is None:
        raise ConfigError(f"{_PREFIX}listener.ack-mode={mode} needs listener.ack-count")
    if "time" in name and seconds is None:
        raise ConfigError(f"{_PREFIX}listener.ack-mode={mode} needs listener.ack-time")
    return Ack(
        AckMode.EVERY,
        records=records if "count" in name else None,
        seconds=seconds if "time" in name else None,
    )


def _retry(settings: Mapping[str, str]) -> RetryPlan | None:
    if settings.get("retry.topic.enabled", "false").lower() != "true":
        return None

    def setting(name: str, default: str) -> str:
        short, new = f"retry.topic.{name}", f"retry.topic.backoff.{name}"
        return settings.get(new, settings.get(short, default))

    attempts = _number("retry.topic.attempts", settings.get("retry.topic.attempts", "3"))
    delay = int(_milliseconds(setting("delay", "1000"))) / 1000
    factor = float(setting("multiplier", "1") or "1") or 1.0
    longest = int(_milliseconds(setting("max-delay", "0"))) / 1000
    delays = [delay * factor**number for number in range(attempts - 1)]
    return RetryPlan(tuple(min(each, longest) if longest else each for each in delays))
