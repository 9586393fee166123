"""`ottla configs`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.parameters import (
    add_examples,
    add_form,
    add_group,
    add_settings,
    add_verb,
    add_watch,
)

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

ENTITY_TYPES: Final = ("topics", "brokers", "broker-loggers", "groups", "client-metrics")
# Kafka's short forms: the flag, the type it stands for, what its value is.
_SHORT: Final = (
    ("--topic", "topics", "TOPIC", "a topic"),
    ("--broker", "brokers", "ID", "a broker, by its id"),
    ("--broker-logger", "broker-loggers", "ID", "the loggers of a broker"),
    ("--group", "groups", "GROUP", "a group"),
    ("--client-metrics", "client-metrics", "NAME", "a subscription to metrics of clients"),
)


class _Entity(argparse.Action):
    """Adds (type, name) to the entities, in the order in which they are given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        name = "" if values == [] else str(values)
        kinds = {flag: kind for flag, kind, _, _ in _SHORT}
        kind = kinds.get(option_string or "", "brokers")
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), (kind, name)])


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "configs", "show and change configs of topics, brokers and groups")
    describe = add_verb(
        verbs,
        "describe",
        "show configs, and where their values come from",
        "cluster.configs:describe",
        "Shows the configs that were set, or with --all also those with their default. SYNONYMS are\n"
        "where a value would come from next, if this one was deleted.",
    )
    _add_entities(describe)
    describe.add_argument(
        "--all", action="store_true", help="also what has its default or is from the broker's file"
    )
    add_form(describe)
    add_watch(describe)
    add_examples(
        describe,
        "ottla configs describe --topic orders",
        "ottla configs describe --broker 1 --all",
        "ottla configs describe --entity-type topics",
    )
    alter = add_verb(verbs, "alter", "set and delete configs", "cluster.configs:alter")
    _add_entities(alter)
    _add_changes(alter)
    alter.add_argument(
        "--dry-run", action="store_true", help="ask whether it would be accepted, change nothing"
    )
    add_examples(
        alter,
        "ottla configs alter --topic orders --set retention.ms=86400000 --delete cleanup.policy",
        "ottla configs alter --entity-type topics --entity-name orders \\",
        "    --add-config retention.ms=86400000,cleanup.policy=[compact,delete]",
    )


def _add_entities(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("of what")
    for flag, _, metavar, text in _SHORT:
        group.add_argument(
            flag,
            metavar=metavar,
            action=_Entity,
            default=[],
            dest="entities",
            help=f"{text}; repeatable",
        )
    group.add_argument(
        "--broker-defaults",
        nargs=0,
        action=_Entity,
        default=[],
        dest="entities",
        help="the defaults of all brokers",
    )
    group.add_argument(
        "--entity-type",
        choices=ENTITY_TYPES,
        help="the type of --entity-name; without a name, all of this type",
    )
    group.add_argument("--entity-name", metavar="NAME", help="name of a topic or group, or an id")
    group.add_argument(
        "--entity-default", action="store_true", help="with --entity-type brokers: their defaults"
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to change")
    add = group.add_argument
    add_settings(group, "--set", dest="settings", help_text="set a config; repeatable")
    add(
        "--delete",
        metavar="NAME",
        action="append",
        default=[],
        dest="deleted",
        help="give a config its default back; repeatable",
    )
    add_settings(
        group, "--append", dest="appended", help_text="add values to a config that is a list"
    )
    add_settings(
        group, "--subtract", dest="subtracted", help_text="remove values from such a config"
    )
    add(
        "--add-config",
        metavar="NAME=VALUE,…",
        action="append",
        default=[],
        help="several to set; a value with commas in [ ]",
    )
    add("--add-config-file", metavar="FILE", help="what to set, as a properties file")
    add(
        "--delete-config",
        metavar="NAME,…",
        action="append",
        default=[],
        help="several to give their default back",
    )
