"""`ottla topics`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Flag, Option, exclusive
from ottla.cli.commands.shared_options import (
    PATTERN,
    connection,
    count_from,
    dry_run,
    examples,
    listing,
    settings,
    topics,
)
from ottla.cli.commands.syntax import Command, Group

_ONLY_WHAT: Final = {
    "under-replicated-partitions": "only partitions with replicas that are not in sync",
    "unavailable-partitions": "only partitions without a live leader",
    "under-min-isr-partitions": "only partitions with fewer in-sync replicas than min.insync.replicas",
    "at-min-isr-partitions": "only partitions with just as many in-sync replicas as min.insync.replicas",
    "topics-with-overrides": "only topics with configs of their own, without partitions",
}


def assignment(text: str) -> dict[int, list[int]]:
    """The replicas of each partition of `1:2,2:3`."""
    found: dict[int, list[int]] = {}
    for number, part in enumerate(text.split(",")):
        try:
            found[number] = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise click.BadParameter(f"{part!r} are no ids of brokers with colons") from None
        if len({*found[number]}) < len(found[number]):
            raise click.BadParameter(f"partition {number} has a broker twice: {part}")
        if len(found[number]) != len(found[0]):
            raise click.BadParameter("all partitions need the same number of replicas")
    return found


def _partitions(help_text: str) -> Option:
    return Option("-p --partitions", help_text, type=count_from(1))


def _assignment(help_text: str) -> Option:
    return Option(
        "--replica-assignment",
        f"{help_text}: ids of brokers, partitions with commas, their replicas with colons",
        metavar="ID:ID,ID:ID",
        type=assignment,
    )


def _config(help_text: str) -> Option:
    return settings("-c --config settings", help_text)


def _exclude_internal() -> Option:
    return Flag("--exclude-internal", "leave out the broker's own topics")


def _if_exists() -> Option:
    return Flag("--if-exists", "a topic that does not exist is no error")


_CREATE: Final = Command(
    "create",
    "create topics",
    "topics.changes:create",
    [
        *topics("the name of a topic"),
        _partitions("how many partitions each has; default: the broker's num.partitions"),
        Option(
            "-r --replication-factor",
            "how many replicas each partition has; default: the broker's",
            type=count_from(1),
        ),
        _assignment("the brokers of each partition, instead of the two numbers"),
        _config("a config of the topics; repeatable"),
        Flag("--if-not-exists", "a topic that already exists is no error"),
        dry_run(),
        *connection(),
    ],
    epilog=examples(
        "ottla topics create orders --partitions 3",
        "ottla topics create prices -c cleanup.policy=compact --if-not-exists",
    ),
)
_LIST: Final = Command(
    "list",
    "list the topics",
    "topics.overview:list_topics",
    [
        *topics(f"{PATTERN}; default: all"),
        _exclude_internal(),
        Flag("--names", "only the names, one on each line"),
        *listing(),
    ],
    epilog=examples("ottla topics list", "ottla topics list 'orders-.*' --names"),
)
_DESCRIBE: Final = Command(
    "describe",
    "show partitions, leaders, replicas and configs of topics",
    "topics.overview:describe",
    [
        *topics(f"{PATTERN}; default: all"),
        Option("--topic-id topic_ids", "a topic by its id", metavar="ID", multiple=True),
        *exclusive(
            *(
                Flag(f"--{what}", help_text, const=what, into="only")
                for what, help_text in _ONLY_WHAT.items()
            )
        ),
        _exclude_internal(),
        _if_exists(),
        *listing(),
    ],
    epilog=examples(
        "ottla topics describe orders", "ottla topics describe --under-replicated-partitions"
    ),
)
_ALTER: Final = Command(
    "alter",
    "add partitions to topics, or change their configs",
    "topics.changes:alter",
    [
        *topics(f"{PATTERN} (which never chooses an internal topic)"),
        _partitions("the new number of partitions"),
        _assignment("the brokers of each partition; existing partitions stay as they are"),
        _config("set a config; repeatable"),
        Option(
            "--delete-config unset",
            "reset a config to its default; repeatable",
            metavar="NAME",
            multiple=True,
        ),
        _if_exists(),
        dry_run(),
        *connection(),
    ],
    description="Adds partitions to topics, or changes their configs.\n\n"
    "With more partitions, keys map to other partitions than before: the records of a key are\n"
    "in order before the change and after it, but not across it.",
    epilog=examples(
        "ottla topics alter orders --partitions 6",
        "ottla topics alter orders --config retention.ms=86400000",
    ),
)
_DELETE: Final = Command(
    "delete",
    "delete topics, with all their records",
    "topics.changes:delete",
    [
        *topics(f"{PATTERN} (which never chooses an internal topic)"),
        Flag("--force", "delete even the cluster's own topics that are named"),
        _if_exists(),
        dry_run(),
        *connection(),
    ],
    description="Deletes topics, with all their records, at once and without asking.",
    epilog=examples("ottla topics delete orders", "ottla topics delete 'test-.*' --dry-run"),
)

COMMAND: Final = Group("topics", SUMMARIES["topics"], [_CREATE, _LIST, _DESCRIBE, _ALTER, _DELETE])
