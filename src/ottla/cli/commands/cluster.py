"""`ottla cluster`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.commands.parameters import add_examples, add_form, add_group, add_verb, add_watch

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands


def add(commands: Commands) -> None:
    """The command, its verbs and their arguments."""
    verbs = add_group(commands, "cluster", "show brokers, versions, disks and features")
    describe = add_verb(
        verbs,
        "describe",
        "show the id of the cluster, its controller and how large it is",
        "cluster.overview:describe",
    )
    add_form(describe)
    add_watch(describe)
    add_examples(describe, "ottla cluster describe", "ottla cluster describe -o json")
    brokers = add_verb(verbs, "brokers", "list the brokers", "cluster.overview:brokers")
    brokers.add_argument(
        "--include-fenced-brokers",
        action="store_true",
        help="also those that are fenced (Kafka 4.0 or later)",
    )
    add_form(brokers)
    add_watch(brokers)
    add_examples(brokers, "ottla cluster brokers")
    versions = add_verb(
        verbs,
        "api-versions",
        "show which versions of which API the brokers speak",
        "cluster.overview:api_versions",
        "Shows which versions of which API each broker speaks, and which of them this client would use.",
    )
    _add_brokers(versions)
    add_form(versions)
    add_examples(versions, "ottla cluster api-versions")
    disks = add_verb(
        verbs,
        "log-dirs",
        "show sizes of partitions in log directories",
        "cluster.overview:log_dirs",
    )
    _add_brokers(disks)
    disks.add_argument(
        "-t",
        "--topic-list",
        "--topic",
        metavar="TOPIC",
        action="append",
        dest="topics",
        help="only these topics, by name or pattern, with commas; default: all",
    )
    add_form(disks)
    add_watch(disks)
    add_examples(disks, "ottla cluster log-dirs --topic orders", "ottla cluster log-dirs -o json")
    features = add_verb(
        verbs,
        "features",
        "show which features the cluster has finalized",
        "cluster.overview:features",
    )
    add_form(features)
    add_examples(features, "ottla cluster features")


def _add_brokers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--broker-list",
        "--broker",
        metavar="ID,ID",
        type=broker_ids,
        help="only these brokers; default: all",
    )


def broker_ids(text: str) -> list[int]:
    """Numbers with commas."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are no ids of brokers") from None
