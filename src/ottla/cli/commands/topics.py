"""`ottla topics`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.parameters import (
    add_examples,
    add_form,
    add_group,
    add_settings,
    add_topics,
    add_verb,
    add_watch,
    count_from,
)

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

_PATTERN: Final = "a name, or a regular expression for whole names"


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "topics", "create, list, describe, alter and delete topics")
    _add_create(verbs)
    _add_list(verbs)
    _add_describe(verbs)
    _add_alter(verbs)
    _add_delete(verbs)


def _add_create(verbs: Commands) -> None:
    create = add_verb(verbs, "create", "create topics", "topics.changes:create")
    add_topics(create, "the name of a topic")
    create.add_argument(
        "-p",
        "--partitions",
        metavar="N",
        type=count_from(1),
        help="how many partitions each has; default: the broker's num.partitions",
    )
    create.add_argument(
        "-r",
        "--replication-factor",
        metavar="N",
        type=count_from(1),
        help="how many replicas each partition has; default: the broker's",
    )
    _add_assignment(create, "which brokers have each partition, instead of the two numbers")
    add_settings(
        create, "-c", "--config", dest="settings", help_text="a config of the topics; repeatable"
    )
    create.add_argument(
        "--if-not-exists", action="store_true", help="a topic that is there already is no error"
    )
    _add_dry_run(create)
    add_examples(
        create,
        "ottla topics create orders --partitions 3",
        "ottla topics create prices -c cleanup.policy=compact --if-not-exists",
    )


def _add_list(verbs: Commands) -> None:
    listing = add_verb(verbs, "list", "list the topics", "topics.overview:list_topics")
    add_topics(listing, f"{_PATTERN}; default: all")
    _add_exclude_internal(listing)
    listing.add_argument("--names", action="store_true", help="only the names, one on each line")
    add_form(listing)
    add_watch(listing)
    add_examples(listing, "ottla topics list", "ottla topics list 'orders-.*' --names")


def _add_describe(verbs: Commands) -> None:
    describe = add_verb(
        verbs,
        "describe",
        "show partitions, leaders, replicas and configs of topics",
        "topics.overview:describe",
    )
    add_topics(describe, f"{_PATTERN}; default: all")
    describe.add_argument(
        "--topic-id", metavar="ID", action="append", dest="topic_ids", help="a topic by its id"
    )
    only = describe.add_mutually_exclusive_group()
    for flag, text in (
        ("--under-replicated-partitions", "only partitions with replicas that are not in sync"),
        ("--unavailable-partitions", "only partitions without a leader that lives"),
        (
            "--under-min-isr-partitions",
            "only partitions with fewer in-sync replicas than min.insync.replicas",
        ),
        (
            "--at-min-isr-partitions",
            "only partitions with just as many in-sync replicas as min.insync.replicas",
        ),
        ("--topics-with-overrides", "only topics with configs of their own, without partitions"),
    ):
        only.add_argument(flag, action="store_const", const=flag[2:], dest="only", help=text)
    _add_exclude_internal(describe)
    _add_if_exists(describe)
    add_form(describe)
    add_watch(describe)
    add_examples(
        describe,
        "ottla topics describe orders",
        "ottla topics describe --under-replicated-partitions",
    )


def _add_alter(verbs: Commands) -> None:
    alter = add_verb(
        verbs,
        "alter",
        "add partitions to topics, or change their configs",
        "topics.changes:alter",
        "Adds partitions to topics, or changes their configs.\n\n"
        "With more partitions, keys belong to other partitions than before: records of one key are\n"
        "in order only before the change and after it.",
    )
    add_topics(alter, f"{_PATTERN} (which never chooses an internal topic)")
    alter.add_argument(
        "-p", "--partitions", metavar="N", type=count_from(1), help="how many there shall be in all"
    )
    _add_assignment(alter, "which brokers have each partition; those that are there stay as is")
    add_settings(alter, "-c", "--config", dest="settings", help_text="set a config; repeatable")
    alter.add_argument(
        "--delete-config",
        metavar="NAME",
        action="append",
        default=[],
        dest="unset",
        help="give a config its default back; repeatable",
    )
    _add_if_exists(alter)
    _add_dry_run(alter)
    add_examples(
        alter,
        "ottla topics alter orders --partitions 6",
        "ottla topics alter orders --config retention.ms=86400000",
    )


def _add_delete(verbs: Commands) -> None:
    delete = add_verb(
        verbs,
        "delete",
        "delete topics, with all their records",
        "topics.changes:delete",
        "Deletes topics, with all their records, at once and without asking.",
    )
    add_topics(delete, f"{_PATTERN} (which never chooses an internal topic)")
    delete.add_argument(
        "--force", action="store_true", help="delete even the cluster's own topics that are named"
    )
    _add_if_exists(delete)
    _add_dry_run(delete)
    add_examples(delete, "ottla topics delete orders", "ottla topics delete 'test-.*' --dry-run")


def _add_assignment(parser: argparse.ArgumentParser, help_text: str) -> None:
    parser.add_argument(
        "--replica-assignment",
        metavar="ID:ID,ID:ID",
        type=assignment,
        help=f"{help_text}: ids of brokers, partitions with commas, their replicas with colons",
    )


def _add_exclude_internal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--exclude-internal", action="store_true", help="leave out the broker's own topics"
    )


def _add_if_exists(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--if-exists", action="store_true", help="no error where there is none")


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would happen, and change nothing"
    )


def assignment(text: str) -> dict[int, list[int]]:
    """The replicas of each partition of `1:2,2:3`."""
    found: dict[int, list[int]] = {}
    for number, part in enumerate(text.split(",")):
        try:
            found[number] = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{part!r} are no ids of brokers with colons"
            ) from None
        if len({*found[number]}) < len(found[number]):
            raise argparse.ArgumentTypeError(f"partition {number} has a broker twice: {part}")
        if len(found[number]) != len(found[0]):
            raise argparse.ArgumentTypeError("all partitions need the same number of replicas")
    return found
