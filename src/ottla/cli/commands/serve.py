"""`ottla serve`."""

from __future__ import annotations

import os
from typing import Any, Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Choice, Flag, Option, ValueType, exclusive, section
from ottla.cli.commands.shared_options import FILE
from ottla.cli.commands.syntax import Command

DEFAULT_LISTEN: Final = "127.0.0.1:9092"
DEFAULT_DATA: Final = "./ottla-data"

MAX_WORKERS: Final = 128
AUTO: Final = "auto"

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
  ottla serve --workers auto
  ottla serve --storage postgresql://ottla@db1/ottla --objects s3://bucket/prefix --advertise broker-1:9092
  ottla serve --registry 127.0.0.1:8081 --console 127.0.0.1:8080
"""


def _processors() -> int:
    """Those that this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class WorkerCount(ValueType):
    """A number of workers, or `auto`."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """The number; as many as there are processors for `auto`."""
        if value == AUTO:
            return min(_processors(), MAX_WORKERS)
        text = str(value)
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_WORKERS):
            self.fail(f"{text!r} is no number from 1 to {MAX_WORKERS}, and not {AUTO}", param, ctx)
        return int(text)


COMMAND: Final = Command(
    "serve",
    SUMMARIES["serve"],
    "serve:serve",
    [
        Option(
            "--listen",
            "HOST:PORT, or PROTOCOL://HOST:PORT: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; repeatable; "
            f"default: {DEFAULT_LISTEN}, or listeners of the file; port 0 picks one",
            metavar="ADDRESS",
            multiple=True,
        ),
        Option(
            "--advertise",
            "the address that the broker gives to clients, likewise; default: the one that they used",
            metavar="ADDRESS",
            multiple=True,
        ),
        *exclusive(
            Option(
                "--data",
                f"default: {DEFAULT_DATA}, or log.dirs of the file",
                metavar="DIR",
                type=FILE,
            ),
            Flag("--ephemeral", "keep everything in memory, up to ottla.ephemeral.max.bytes"),
            Option(
                "--storage",
                "share the storage of a cluster with other brokers, a database as in "
                "postgresql://user@host/database; @FILE reads the URL from a file; default: $OTTLA_STORAGE; see "
                "`ottla storage`",
                metavar="URL",
            ),
        ),
        Option(
            "--objects",
            "the bucket of that storage, if it has one, as in s3://bucket/prefix?region=…; @FILE reads the URL from a "
            "file; default: $OTTLA_OBJECTS",
            metavar="URL",
        ),
        Option(
            "--workers",
            f"serve with so many processes, or {AUTO} for one on each processor; worker 1 listens on the port after "
            "that of --listen, worker 2 on the next, and clients must reach them all; default: 1, a single process",
            metavar="N",
            type=WorkerCount(),
            default=1,
        ),
        Option("--config", "a server.properties, of Apache Kafka too", type=FILE),
        Option(
            "--set options",
            "an option by Kafka's name, which wins over the file; repeatable",
            metavar="NAME=VALUE",
            multiple=True,
        ),
        Option(
            "--user users",
            "a user for SASL listeners, with a password for PLAIN and SCRAM; NAME:@FILE reads it from a file; "
            "repeatable",
            metavar="NAME:PASSWORD",
            multiple=True,
        ),
        Option(
            "--registry",
            "serve a schema registry too, over the topic _schemas; https://HOST:PORT with TLS; needs ottla[schemas]",
            metavar="HOST:PORT",
        ),
        Option(
            "--registry-login",
            "clients of the registry need a user or a token of this file: NAME:PASSWORD or a bearer token on a line",
            type=FILE,
        ),
        Option(
            "--metrics",
            "serve metrics for Prometheus at /metrics, and /healthz; https://HOST:PORT with TLS",
            metavar="HOST:PORT",
        ),
        Option(
            "--metrics-login",
            "/metrics needs a user or a token of this file, as --registry-login",
            type=FILE,
        ),
        Option(
            "--certificate",
            "for https://…: a PEM file with key and certificates; default: that of the first listener with TLS",
            type=FILE,
        ),
        Option(
            "--log-format",
            "one line per event, or one JSON object; default: text",
            type=Choice("text", "json"),
            default="text",
        ),
        Option(
            "--log-level",
            "default: info; debug has a line for every request",
            type=Choice("debug", "info", "warning", "error"),
        ),
        Flag("-v --verbose", "as --log-level debug"),
        *section(
            "the console",
            [
                Option(
                    "--console",
                    "serve a web page that shows the broker, too; https://HOST:PORT with TLS; needs ottla[console]",
                    metavar="HOST:PORT",
                ),
                *exclusive(
                    Option(
                        "--console-login",
                        "tokens by which users and programs log in: ROLE TOKEN on a line, with the role viewer, "
                        "operator or admin; users of SASL listeners log in by their passwords",
                        type=FILE,
                    ),
                    Flag(
                        "--console-open",
                        "no login: everybody who reaches the console may do everything",
                    ),
                ),
                Flag("--console-read-only", "the console refuses every change"),
                Option(
                    "--console-allowed-host console_allowed_hosts",
                    "a further name by which browsers call the console; repeatable",
                    metavar="NAME",
                    multiple=True,
                ),
                Flag(
                    "--console-behind-proxy",
                    "the console believes the headers X-Forwarded-For, -Host and -Proto: only where a proxy sets them",
                ),
            ],
        ),
    ],
    description=_DESCRIPTION,
    instead=_INSTEAD,
)
