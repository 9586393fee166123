"""`ottla serve`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.parameters import FILE
from ottla.cli.commands.syntax import Choice, Command, Exclusive, Option

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
_KEEPING: Final = Exclusive()

COMMAND: Final = Command(
    "serve",
    SUMMARIES["serve"],
    "serve:serve",
    [
        Option(
            "--listen",
            metavar="HOST:PORT",
            help=f"default: {DEFAULT_LISTEN}, or listeners of the file; port 0 picks one",
        ),
        Option(
            "--advertise",
            metavar="HOST:PORT",
            help="what clients are told to connect to; default: the address that they used",
        ),
        Option(
            "--data",
            metavar="DIR",
            type=FILE,
            among=_KEEPING,
            help=f"default: {DEFAULT_DATA}, or log.dirs of the file",
        ),
        Option(
            "--ephemeral",
            is_flag=True,
            among=_KEEPING,
            help="keep everything in memory, up to ottla.ephemeral.max.bytes",
        ),
        Option(
            "--config", metavar="FILE", type=FILE, help="a server.properties, of Apache Kafka too"
        ),
        Option(
            "--set",
            "options",
            metavar="NAME=VALUE",
            multiple=True,
            help="an option by Kafka's name, which wins over the file; repeatable",
        ),
        Option(
            "--metrics",
            metavar="HOST:PORT",
            help="serve metrics for Prometheus at /metrics, and /healthz",
        ),
        Option(
            "--log-format",
            type=Choice("text", "json"),
            default="text",
            help="one line per event, or one JSON object; default: text",
        ),
        Option(
            "--log-level",
            type=Choice("debug", "info", "warning", "error"),
            help="default: info; debug has a line for every request",
        ),
        Option("-v", "--verbose", is_flag=True, help="as --log-level debug"),
    ],
    description=_DESCRIPTION,
    instead=_INSTEAD,
)
