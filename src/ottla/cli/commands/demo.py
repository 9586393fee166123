"""`ottla demo`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import count_from
from ottla.cli.commands.syntax import Argument, Choice, Command, Option

COMMAND: Final = Command(
    "demo",
    SUMMARIES["demo"],
    "demo.broker_demo:run",
    [
        Argument(
            "what",
            metavar="pipeline|broker",
            type=Choice("pipeline", "broker"),
            default="pipeline",
            help="what is killed; default: pipeline",
        ),
        Option(
            "--records",
            metavar="N",
            type=count_from(1),
            help="how many records; default: 100000 through the pipeline, 200000 to the broker",
        ),
        Option(
            "--kills",
            metavar="N",
            type=count_from(0),
            help="how many kill -9; default: 1 of the pipeline, 5 of the broker",
        ),
    ],
    description="Runs a broker and kills something again and again: the driver of an exactly-once Spark pipeline, or\n"
    "the broker itself. Then reads everything back and counts.",
)
