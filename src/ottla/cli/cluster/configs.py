"""`ottla configs`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.commands.syntax import Arguments
from ottla.cli.connection import admin_of
from ottla.cli.errors import CommandError, UsageError, attempt, print_errors
from ottla.cli.terminal.output import Output, columns, repeat, say
from ottla.client.admin_model.configs import (
    AlterConfig,
    AlterConfigOperation,
    ConfigEntry,
    ConfigResource,
)
from ottla.config import properties
from ottla.config.options import ConfigSource, ResourceType
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

SHAPE: Final = columns(
    entity="ENTITY", name="NAME", value="VALUE", source="SOURCE", synonyms="SYNONYMS"
)

_TYPES: Final = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "groups": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
_OF_BROKERS: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
# Sources of values that were set for one resource; loggers have no other.
_OWN: Final = {
    ResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceType.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ResourceType.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
    ResourceType.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
}
# As Kafka's tool splits them: at commas and equals signs outside [ ].
_OUTSIDE: Final = r"(?=[^\]]*(?:\[|$))"
# Matches the names of Kafka's options of type PASSWORD.
_SECRET: Final = re.compile(
    r"password|secret|jaas|credential|keystore\.key|master\.key|certificate"
)
_KEY: Final = re.compile(r"[A-Za-z0-9._-]+")

Configs = Mapping[str, ConfigEntry]


def describe(arguments: Arguments) -> int:
    """Show the configs that were set for resources, or all of them."""
    output = Output(arguments.form)
    with admin_of(arguments) as admin:

        def show() -> int:
            resources = named_resources(arguments) or _all_of(admin, arguments.entity_type)
            found, errors = attempt(
                resources, lambda: admin.describe_configs(resources, include_synonyms=True)
            )
            rows = [
                row_of(resource, entry)
                for resource, entries in found.items()
                for entry in sorted(entries.values(), key=lambda each: each.name)
                if arguments.all or is_own(resource, entry)
            ]
            output.rows(SHAPE, [_for_people(row) for row in rows] if output.is_table else rows)
            if not rows and not errors and output.is_table:
                say("no config is set; --all also shows defaults")
            return print_errors(errors.values())

        return repeat(arguments.watch, show)


def named_resources(arguments: Arguments) -> list[ConfigResource]:
    """The resources that the arguments name; empty if they name only a type."""
    entities: list[tuple[str, str]] = list(arguments.entities)
    if arguments.broker_defaults:
        entities.append(("brokers", ""))
    if arguments.entity_type is None:
        if arguments.entity_name is not None or arguments.entity_default:
            raise UsageError("--entity-name and --entity-default need --entity-type")
        if not entities:
            raise UsageError(
                "no resource is given",
                "give --topic NAME, --broker ID, --group ID or --entity-type",
            )
    elif entities:
        raise UsageError(
            "--entity-type cannot be combined with --topic, --broker and similar options"
        )
    elif arguments.entity_default:
        if arguments.entity_type != "brokers" or arguments.entity_name is not None:
            raise UsageError("--entity-default goes with --entity-type brokers, without a name")
        entities.append(("brokers", ""))
    elif arguments.entity_name is not None:
        entities.append((arguments.entity_type, arguments.entity_name))
    return [_resource(kind, name) for kind, name in dict.fromkeys(entities)]


def _resource(kind: str, name: str) -> ConfigResource:
    resource = ConfigResource(_TYPES[kind], name)
    if resource.type in _OF_BROKERS and name and not name.isdecimal():
        raise UsageError(f"{name!r} is not a broker", "`ottla cluster brokers` shows their ids")
    return resource


def _all_of(admin: Admin, kind: str) -> list[ConfigResource]:
    """All resources of a type, as Kafka's tool lists them."""
    if kind == "client-metrics":
        return admin.list_config_resources([ResourceType.CLIENT_METRICS])
    if kind == "topics":
        names: Iterable[str] = sorted(admin.list_topics(list_internal=True))
    elif kind == "groups":
        names = sorted({*admin.list_groups(), *_groups_with_configs(admin)})
    else:
        names = [str(node.id) for node in admin.describe_cluster().nodes]
    found = [ConfigResource(_TYPES[kind], name) for name in names]
    return [*found, ConfigResource.all_brokers()] if kind == "brokers" else found


def _groups_with_configs(admin: Admin) -> list[str]:
    """The groups for which a config was set, which need not exist; none before Kafka 4.1, which cannot list them."""
    try:
        return [each.name for each in admin.list_config_resources([ResourceType.GROUP])]
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return []


def is_own(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """Whether the config was set for this resource at run time."""
    if resource == ConfigResource.all_brokers():
        return entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return _OWN.get(resource.type, entry.source) is entry.source


def row_of(resource: ConfigResource, entry: ConfigEntry) -> dict[str, Any]:
    """A config with everything that JSON shows; tables show only the synonyms that would apply next."""
    return {
        "entity": str(resource).replace("_", "-"),
        "entity_type": next(kind for kind, each in _TYPES.items() if each is resource.type),
        "entity_name": resource.name or None,
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "sensitive": entry.is_sensitive,
        "read_only": entry.is_read_only,
        "type": entry.type.name,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": each.source.name}
            for each in entry.synonyms
        ],
    }


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    synonyms = ", ".join("{source}:{name}={value}".format(**each) for each in row["synonyms"][1:])
    return {**row, "synonyms": synonyms}


# alter


def alter(arguments: Arguments) -> int:
    """Set and delete single configs; all others stay as they are."""
    resources = named_resources(arguments)
    if not resources:
        raise UsageError("no name is given", "give --entity-name NAME")
    changes = changes_of(arguments)
    with admin_of(arguments) as admin:
        done, errors = change(admin, resources, changes, is_dry=arguments.dry_run)
    word = "would change" if arguments.dry_run else "changed"
    Output("table").lines(
        f"{str(resource).replace('_', '-')} {word}: {changes_text(changes)}" for resource in done
    )
    return print_errors(errors)


def change(
    admin: Admin, resources: Sequence[ConfigResource], changes: list[AlterConfig], *, is_dry: bool
) -> tuple[list[ConfigResource], list[OttlaError]]:
    """Change configs, or only validate the change; returns the changed resources, and the errors of the others."""
    unset: dict[ConfigResource, OttlaError] = {}
    deleted = [each.name for each in changes if each.operation is AlterConfigOperation.DELETE]
    if deleted:
        present, failed = attempt(resources, lambda: admin.describe_configs(resources))
        unset |= failed
        unset |= _not_set(present, deleted)
    wanted = {each: changes for each in resources if each not in unset}
    done, errors = attempt(
        wanted, lambda: admin.incremental_alter_configs(wanted, validate_only=is_dry)
    )
    return list(done), [*unset.values(), *errors.values()]


def changes_of(arguments: Arguments) -> list[AlterConfig]:
    """The changes that the arguments ask for."""
    settings: dict[str, str] = {}
    if arguments.add_config_file is not None:
        settings |= properties.load(Path(arguments.add_config_file))
    for text in arguments.add_config:
        settings |= parse_bracketed(text)
    settings |= dict(arguments.settings)
    deleted = [*arguments.deleted]
    deleted += [name.strip() for text in arguments.delete_config for name in text.split(",")]
    operation = AlterConfigOperation
    changes = [
        *(AlterConfig(name, value) for name, value in settings.items()),
        *(AlterConfig(name, None, operation.DELETE) for name in dict.fromkeys(deleted)),
        *(AlterConfig(name, value, operation.APPEND) for name, value in arguments.appended),
        *(AlterConfig(name, value, operation.SUBTRACT) for name, value in arguments.subtracted),
    ]
    if not changes:
        raise UsageError("nothing to change", "give --set NAME=VALUE or --delete NAME")
    _check_names([change.name for change in changes])
    return changes


def changes_text(changes: Iterable[AlterConfig]) -> str:
    """The changes in one line."""
    words = {
        AlterConfigOperation.SET: "{name}={value}",
        AlterConfigOperation.DELETE: "{name} deleted",
        AlterConfigOperation.APPEND: "{name} with {value}",
        AlterConfigOperation.SUBTRACT: "{name} without {value}",
    }
    return ", ".join(
        words[change.operation].format(name=change.name, value=_masked(change))
        for change in changes
    )


def _masked(change: AlterConfig) -> str | None:
    """The value, masked if it is a secret."""
    return change.value if _SECRET.search(change.name) is None else "(hidden)"


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if _KEY.fullmatch(name) is None:
            raise UsageError(f"{name!r} is not the name of a config")
        if names.count(name) > 1:
            raise UsageError(f"{name} is given twice")


def parse_bracketed(text: str) -> dict[str, str]:
    """Parse Kafka's a=b,c=[d,e]."""
    found = {}
    for part in re.split("," + _OUTSIDE, text):
        name, *values = re.split(r"\s*=\s*" + _OUTSIDE, part)
        if len(values) != 1 or not name.strip():
            raise UsageError(f"{part!r} is not NAME=VALUE", "put a value with commas in [ ]")
        found[name.strip()] = re.sub(r"[\[\]]", "", values[0]).strip()
    return found


def _not_set(
    present: Mapping[ConfigResource, Configs], deleted: Iterable[str]
) -> dict[ConfigResource, OttlaError]:
    """Errors for configs that are to be deleted and are not set, which may be misspelt; brokers ignore them."""
    found: dict[ConfigResource, OttlaError] = {}
    for resource, entries in present.items():
        own = {entry.name for entry in entries.values() if is_own(resource, entry)}
        for name in deleted:
            if name not in own:
                found[resource] = CommandError(
                    f"{name} is not set for {str(resource).replace('_', '-')}",
                    "`ottla configs describe` shows which configs are set",
                )
    return found
