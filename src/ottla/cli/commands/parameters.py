"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.config.default_cluster import DEFAULT_SERVERS, SERVERS_VARIABLE, default_servers

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

FORMS: Final = ("table", "json", "yaml")


def add_group(commands: Commands, name: str, help_text: str) -> Commands:
    """A command that has verbs."""
    command = commands.add_parser(name, help=help_text, description=sentence(help_text))
    return command.add_subparsers(dest="verb", metavar="VERB", required=True)


def add_verb(
    commands: Commands, name: str, help_text: str, run: str, description: str | None = None
) -> argparse.ArgumentParser:
    """A command or verb that talks to a cluster; `run` names the function in `ottla.cli` that does it."""
    verb = commands.add_parser(
        name,
        help=help_text,
        description=description or sentence(help_text),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(run=run)
    add_connection(verb)
    return verb


def add_examples(parser: argparse.ArgumentParser, *lines: str) -> None:
    """What one would type, at the end of the help."""
    head = "example:" if len(lines) == 1 else "examples:"
    parser.epilog = "\n  ".join([head, *lines])


def add_topics(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Topics by name or pattern, as words or in Kafka's way; both end up in `topics`."""
    parser.add_argument("topics", metavar="TOPIC", nargs="*", action="extend", help=help_text)
    parser.add_argument(
        "-t",
        "--topic",
        metavar="TOPIC",
        action="append",
        dest="topics",
        help="the same, as Kafka's tools have it; repeatable",
    )


def sentence(text: str) -> str:
    """A help text as a sentence of its own."""
    return text[:1].upper() + text[1:] + "."


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Where the cluster is and how to talk to it."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"a broker, or several with commas; default: ${SERVERS_VARIABLE} or {DEFAULT_SERVERS}",
    )
    group.add_argument(
        "--command-config", metavar="FILE", help="options of the client, as a Kafka properties file"
    )
    group.add_argument(
        "-X",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="client_options",
        help="an option of the client by Kafka's name; repeatable",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        help="how long to try before giving up; default: 10",
    )
    group.add_argument(
        "-v", "--verbose", action="store_true", help="log more, and show where an error comes from"
    )


def add_form(parser: argparse.ArgumentParser) -> None:
    """How what is listed is written."""
    parser.add_argument(
        "-o", "--output", choices=FORMS, default="table", dest="form", help="default: %(default)s"
    )


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Again and again."""
    parser.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=seconds,
        const=2.0,
        help="do it again every SECONDS, until Ctrl-C; default: 2",
    )


def add_settings(
    parser: argparse._ActionsContainer, *flags: str, dest: str, help_text: str
) -> None:
    """A repeatable NAME=VALUE."""
    parser.add_argument(
        *flags,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=name_and_value,
        dest=dest,
        help=help_text,
    )


def name_and_value(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def seconds(text: str) -> float:
    """A time in seconds, which must be positive."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def count_from(least: int) -> Callable[[str], int]:
    """Reads a number that is not smaller."""

    def count(text: str) -> int:
        number = whole(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return number

    return count


def servers_of(arguments: argparse.Namespace) -> str:
    """The brokers to start from, without a file of options."""
    return arguments.bootstrap_server or default_servers()
