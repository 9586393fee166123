"""`ottla serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cli.syntax.pieces import Commands


def add(commands: Commands) -> None:
    """The command and its arguments."""
    serve = commands.add_parser(
        "serve", help="run a broker", description="Runs a broker until SIGTERM or Ctrl-C."
    )
    serve.set_defaults(run="serve:serve")
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        help="default: %(default)s; port 0 picks one",
    )
    serve.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="what clients are told to connect to; default: the address that they used",
    )
    where = serve.add_mutually_exclusive_group()
    where.add_argument("--data", metavar="DIR", default="./ottla-data", help="default: %(default)s")
    where.add_argument(
        "--ephemeral",
        action="store_true",
        help="keep everything in memory, up to ottla.ephemeral.max.bytes",
    )
    serve.add_argument("--config", metavar="FILE", help="options as a Kafka properties file")
    serve.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="options",
        help="an option by Kafka's name; repeatable",
    )
    serve.add_argument("-v", "--verbose", action="store_true", help="log more")
