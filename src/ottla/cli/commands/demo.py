"""`ottla demo`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Choice, Option
from ottla.cli.commands.shared_options import count_from
from ottla.cli.commands.syntax import Command

COMMAND: Final = Command(
    "demo",
    SUMMARIES["demo"],
    "demo.broker_demo:run",
    [
        Argument(
            "what",
            "what is killed; default: pipeline",
            metavar="pipeline|broker|cluster",
            type=Choice("pipeline", "broker", "cluster"),
            default="pipeline",
        ),
        Option(
            "--records",
            "how many records; default: 100000 through the pipeline, 200000 to the broker, 50000 through the cluster",
            type=count_from(1),
        ),
        Option(
            "--kills",
            "how many kill -9; default: 1 of the pipeline, 5 of the broker; of the cluster, failures: 2",
            type=count_from(0),
        ),
    ],
    description="Runs a broker and kills something again and again: the driver of an exactly-once Spark pipeline, or\n"
    "the broker itself. Then reads everything back and counts.\n\n"
    "`cluster` starts PostgreSQL, an S3-compatible store and three brokers that share them. While the pipeline runs,\n"
    "a broker is killed, and another is paused until its partitions were taken over, then continued; with more\n"
    "failures, in turn.",
)
