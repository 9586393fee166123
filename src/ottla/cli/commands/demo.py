"""`ottla demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.commands.parameters import count_from

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands


def add(commands: Commands) -> None:
    """The command and its arguments."""
    demo = commands.add_parser(
        "demo",
        help="see for yourself that nothing is lost or duplicated",
        description="Runs a broker and kills something again and again: the driver of an exactly-once Spark "
        "pipeline, or the broker itself. Then reads everything back and counts.",
    )
    demo.set_defaults(run="demo.broker_demo:run")
    demo.add_argument(
        "what",
        nargs="?",
        choices=["pipeline", "broker"],
        default="pipeline",
        help="what is killed; default: %(default)s",
    )
    demo.add_argument(
        "--records",
        type=count_from(1),
        metavar="N",
        help="how many records; default: 100000 through the pipeline, 200000 to the broker",
    )
    demo.add_argument(
        "--kills",
        type=count_from(0),
        metavar="N",
        help="how many kill -9; default: 1 of the pipeline, 5 of the broker",
    )
