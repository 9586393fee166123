"""The `ottla` command: its arguments, and the way to the command that does the work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from ottla.version import VERSION

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130


def _count_from(least: int) -> Callable[[str], int]:
    """Reads a number that is not smaller."""

    def count(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return number

    return count


def parser() -> argparse.ArgumentParser:
    """Everything that can be typed."""
    top = argparse.ArgumentParser(
        prog="ottla", description="Exactly-once event streaming for Python and Spark."
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    serve = commands.add_parser(
        "serve", help="run a broker", description="Runs a broker until SIGTERM or Ctrl-C."
    )
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

    demo = commands.add_parser(
        "demo",
        help="see for yourself that nothing is lost",
        description="Runs a broker, produces, kills the broker again and again, and reads everything back.",
    )
    demo.add_argument(
        "--records",
        type=_count_from(1),
        default=200_000,
        metavar="N",
        help="how many records; default: %(default)s",
    )
    demo.add_argument(
        "--kills",
        type=_count_from(0),
        default=5,
        metavar="N",
        help="how many kill -9; default: %(default)s",
    )
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    arguments = parser().parse_args(argv)
    if arguments.version:
        print(f"ottla {VERSION}")
        return DONE
    if arguments.command is None:
        parser().print_help(sys.stderr)
        return USAGE
    from ottla.errors import ConfigError, OttlaError

    try:
        if arguments.command == "serve":
            from ottla.cli.serve import serve

            return serve(arguments)
        from ottla.cli.demo import demo

        return demo(arguments.records, arguments.kills)
    except ConfigError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return USAGE
    except (OttlaError, OSError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
