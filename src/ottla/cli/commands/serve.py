"""`ottla serve`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from ottla.cli.commands.parser import Parser

if TYPE_CHECKING:
    from ottla.cli.commands.parameters import Commands

DEFAULT_LISTEN: Final = "127.0.0.1:9092"
DEFAULT_DATA: Final = "./ottla-data"

_LISTEN: Final = f"--listen HOST:PORT, as in --listen {DEFAULT_LISTEN}"
_INSTEAD: Final = {
    "--address": _LISTEN,
    "--bind": _LISTEN,
    "--host": _LISTEN,
    "--port": _LISTEN,
    "-p": _LISTEN,
    "--bootstrap-server": _LISTEN,
    "-b": _LISTEN,
    "--log-dirs": "--data DIR",
    "--dir": "--data DIR",
    "--path": "--data DIR",
}

_DESCRIPTION: Final = """\
Runs a broker until SIGTERM or Ctrl-C. When clients can connect, `listening on HOST:PORT` is printed; the log goes to
stderr.

  ottla serve
  ottla serve --listen 0.0.0.0:9092 --data /var/lib/ottla --metrics 127.0.0.1:9464
  ottla serve --config server.properties --set num.partitions=3
"""


def add(commands: Commands) -> None:
    """The command and its arguments."""
    serve = commands.add_parser(
        "serve",
        help="run a broker",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.set_defaults(run="serve:serve")
    if isinstance(serve, Parser):
        serve.instead = _INSTEAD
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"default: {DEFAULT_LISTEN}, or listeners of the file; port 0 picks one",
    )
    serve.add_argument(
        "--advertise",
        metavar="HOST:PORT",
        help="what clients are told to connect to; default: the address that they used",
    )
    where = serve.add_mutually_exclusive_group()
    where.add_argument(
        "--data", metavar="DIR", help=f"default: {DEFAULT_DATA}, or log.dirs of the file"
    )
    where.add_argument(
        "--ephemeral",
        action="store_true",
        help="keep everything in memory, up to ottla.ephemeral.max.bytes",
    )
    serve.add_argument("--config", metavar="FILE", help="a server.properties, of Apache Kafka too")
    serve.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="options",
        help="an option by Kafka's name, which wins over the file; repeatable",
    )
    serve.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve metrics for Prometheus at /metrics, and /healthz",
    )
    serve.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="one line per event, or one JSON object; default: %(default)s",
    )
    serve.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="default: info; debug has a line for every request",
    )
    serve.add_argument("-v", "--verbose", action="store_true", help="as --log-level debug")
