"""`ottla configs`."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import (
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
from ottla.cli.commands.syntax import Choice, Command, Group, Option, ValueType

ENTITY_TYPES: Final = ("topics", "brokers", "broker-loggers", "groups", "client-metrics")


class _Entity(ValueType):
    """The name of a thing of one type."""

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
    section = "of what"
    return [
        *(
            Option(
                flag,
                metavar=metavar,
                type=kind,
                multiple=True,
                into="entities",
                section=section,
                help=f"{meaning}; repeatable",
            )
            for flag, metavar, meaning, kind in _SHORT_FORMS
        ),
        Option(
            "--broker-defaults", is_flag=True, section=section, help="the defaults of all brokers"
        ),
        Option(
            "--entity-type",
            type=Choice(*ENTITY_TYPES),
            section=section,
            help="the type of --entity-name; without a name, all of this type",
        ),
        Option(
            "--entity-name",
            metavar="NAME",
            section=section,
            help="name of a topic or group, or an id",
        ),
        Option(
            "--entity-default",
            is_flag=True,
            section=section,
            help="with --entity-type brokers: their defaults",
        ),
    ]


def _changes() -> list[Option]:
    section = "what to change"
    return [
        settings("--set", "settings", section=section, help_text="set a config; repeatable"),
        Option(
            "--delete",
            "deleted",
            metavar="NAME",
            multiple=True,
            section=section,
            help="give a config its default back; repeatable",
        ),
        settings(
            "--append",
            "appended",
            section=section,
            help_text="add values to a config that is a list",
        ),
        settings(
            "--subtract",
            "subtracted",
            section=section,
            help_text="remove values from such a config",
        ),
        Option(
            "--add-config",
            metavar="NAME=VALUE,…",
            multiple=True,
            section=section,
            help="several to set; a value with commas in [ ]",
        ),
        Option(
            "--add-config-file",
            metavar="FILE",
            type=FILE,
            section=section,
            help="what to set, as a properties file",
        ),
        Option(
            "--delete-config",
            metavar="NAME,…",
            multiple=True,
            section=section,
            help="several to give their default back",
        ),
    ]


_DESCRIBE: Final = Command(
    "describe",
    "show configs, and where their values come from",
    "cluster.configs:describe",
    [
        Option(
            "--all",
            is_flag=True,
            help="also what has its default or is from the broker's file",
        ),
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
        "ottla configs describe --entity-type topics",
    ),
)
_ALTER: Final = Command(
    "alter",
    "set and delete configs",
    "cluster.configs:alter",
    [
        dry_run("ask whether it would be accepted, change nothing"),
        *_entities(),
        *_changes(),
        *connection(),
    ],
    epilog=examples(
        "ottla configs alter --topic orders --set retention.ms=86400000 --delete cleanup.policy",
        "ottla configs alter --entity-type topics --entity-name orders \\",
        "    --add-config retention.ms=86400000,cleanup.policy=[compact,delete]",
    ),
)

COMMAND: Final = Group("configs", SUMMARIES["configs"], [_DESCRIBE, _ALTER])
