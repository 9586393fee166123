"""`ottla configs`."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Choice, Flag, Option, ValueType, section
from ottla.cli.commands.shared_options import (
    FILE,
    GROUP,
    TOPIC,
    connection,
    dry_run,
    examples,
    form,
    settings,
    watch,
)
from ottla.cli.commands.syntax import Command, Group

ENTITY_TYPES: Final = ("topics", "brokers", "broker-loggers", "groups", "client-metrics")


class _Entity(ValueType):
    """The name of a resource of one type."""

    name = "entity"

    def __init__(self, kind: str, completed_as: ValueType | None = None) -> None:
        self._kind = kind
        self._completed_as = completed_as

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """With its type before it."""
        return self._kind, value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """The names of the cluster, where it can be asked for them."""
        if self._completed_as is None:
            return []
        return self._completed_as.shell_complete(ctx, param, incomplete)


# Kafka's short forms: the flag, its value in help, its meaning, and the type it stands for.
_SHORT_FORMS: Final = (
    ("--topic", "TOPIC", "a topic", _Entity("topics", TOPIC)),
    ("--broker", "ID", "a broker, by its id", _Entity("brokers")),
    ("--broker-logger", "ID", "the loggers of a broker", _Entity("broker-loggers")),
    ("--group", "GROUP", "a group", _Entity("groups", GROUP)),
    ("--client-metrics", "NAME", "a subscription to metrics of clients", _Entity("client-metrics")),
)


def _entities() -> list[Option]:
    return section(
        "resources",
        [
            *(
                Option(
                    flag,
                    f"{meaning}; repeatable",
                    metavar=metavar,
                    type=kind,
                    multiple=True,
                    into="entities",
                )
                for flag, metavar, meaning, kind in _SHORT_FORMS
            ),
            Flag("--broker-defaults", "the defaults of all brokers"),
            Option(
                "--entity-type",
                "the type of --entity-name; without a name, all of this type",
                type=Choice(*ENTITY_TYPES),
            ),
            Option("--entity-name", "name of a topic or group, or an id", metavar="NAME"),
            Flag("--entity-default", "with --entity-type brokers: their defaults"),
        ],
    )


def _changes() -> list[Option]:
    return section(
        "changes",
        [
            settings("--set settings", "set a config; repeatable"),
            Option(
                "--delete deleted",
                "reset a config to its default; repeatable",
                metavar="NAME",
                multiple=True,
            ),
            settings("--append appended", "add values to a config that is a list"),
            settings("--subtract subtracted", "remove values from such a config"),
            Option(
                "--add-config",
                "set several configs; a value with commas in [ ]",
                metavar="NAME=VALUE,…",
                multiple=True,
            ),
            Option("--add-config-file", "set the configs of a properties file", type=FILE),
            Option(
                "--delete-config",
                "reset several configs to their defaults",
                metavar="NAME,…",
                multiple=True,
            ),
        ],
    )


_DESCRIBE: Final = Command(
    "describe",
    "show configs, and where their values come from",
    "cluster.configs:describe",
    [
        Flag("--all", "also configs with their default or from the broker's file"),
        form(),
        watch(),
        *_entities(),
        *connection(),
    ],
    description="Shows the configs that were set, or with --all also those with their default. SYNONYMS are\n"
    "where a value would come from next, if this one was deleted.",
    epilog=examples(
        "ottla configs describe --topic orders",
        "ottla configs describe --broker 1 --all",
        "ottla configs describe --group kitchen --all",
        "ottla configs describe --entity-type topics",
    ),
)
_ALTER: Final = Command(
    "alter",
    "set and delete configs",
    "cluster.configs:alter",
    [
        dry_run("check whether the broker would accept the changes; change nothing"),
        *_entities(),
        *_changes(),
        *connection(),
    ],
    epilog=examples(
        "ottla configs alter --topic orders --set retention.ms=86400000 --delete cleanup.policy",
        "ottla configs alter --group kitchen --set consumer.session.timeout.ms=60000",
        "ottla configs alter --entity-type topics --entity-name orders \\",
        "    --add-config retention.ms=86400000,cleanup.policy=[compact,delete]",
    ),
)

COMMAND: Final = Group("configs", SUMMARIES["configs"], [_DESCRIBE, _ALTER])
