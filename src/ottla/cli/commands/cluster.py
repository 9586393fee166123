"""`ottla cluster`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Flag, Option
from ottla.cli.commands.shared_options import TOPIC, connection, examples, form, listing
from ottla.cli.commands.syntax import Command, Group


def broker_ids(text: str) -> list[int]:
    """Numbers with commas."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} are no ids of brokers") from None


def _brokers() -> Option:
    return Option(
        "--broker-list --broker",
        "only these brokers; default: all",
        metavar="ID,ID",
        type=broker_ids,
    )


_DESCRIBE: Final = Command(
    "describe",
    "show the id of the cluster, its controller and how large it is",
    "cluster.overview:describe",
    listing(),
    epilog=examples("ottla cluster describe", "ottla cluster describe -o json"),
)
_BROKERS: Final = Command(
    "brokers",
    "list the brokers",
    "cluster.overview:brokers",
    [
        Flag("--include-fenced-brokers", "also those that are fenced (Kafka 4.0 or later)"),
        *listing(),
    ],
    epilog=examples("ottla cluster brokers"),
)
_API_VERSIONS: Final = Command(
    "api-versions",
    "show which versions of which API the brokers speak",
    "cluster.overview:api_versions",
    [_brokers(), form(), *connection()],
    description="Shows which versions of which API each broker speaks, and which of them this client would use.",
    epilog=examples("ottla cluster api-versions"),
)
_LOG_DIRS: Final = Command(
    "log-dirs",
    "show sizes of partitions in log directories",
    "cluster.overview:log_dirs",
    [
        _brokers(),
        Option(
            "-t --topic-list --topic topics",
            "only these topics, by name or pattern, with commas; default: all",
            type=TOPIC,
            multiple=True,
        ),
        *listing(),
    ],
    epilog=examples("ottla cluster log-dirs --topic orders", "ottla cluster log-dirs -o json"),
)
_FEATURES: Final = Command(
    "features",
    "show which features the cluster has finalized",
    "cluster.overview:features",
    [form(), *connection()],
    epilog=examples("ottla cluster features"),
)
_QUORUM: Final = Command(
    "quorum",
    "show the controllers, and how far each has read the metadata log",
    "cluster.overview:quorum",
    listing(),
    epilog=examples("ottla cluster quorum"),
)

COMMAND: Final = Group(
    "cluster",
    SUMMARIES["cluster"],
    [_DESCRIBE, _BROKERS, _API_VERSIONS, _LOG_DIRS, _FEATURES, _QUORUM],
)
