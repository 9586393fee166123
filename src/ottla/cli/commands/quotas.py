"""`ottla quotas`."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Flag, Option, exclusive, section
from ottla.cli.commands.shared_options import (
    USER,
    Value,
    connection,
    dry_run,
    examples,
    listing,
    name_and_value,
)
from ottla.cli.commands.syntax import Command, Group

# Kafka's names of quotas, and what each limits.
OF_CLIENTS: Final = {
    "producer_byte_rate": "bytes per second that producers send to a broker",
    "consumer_byte_rate": "bytes per second that consumers get from a broker",
    "request_percentage": "share of a broker's request time, in percent",
    "controller_mutation_rate": "partitions per second that are created or deleted",
}
OF_ADDRESSES: Final = {"connection_creation_rate": "connections per second to a broker"}
QUOTAS: Final = OF_CLIENTS | OF_ADDRESSES

_TEXT: Final = "\n".join(
    [
        "The quotas are:",
        "",
        *(f"  {name:<26}{meaning}" for name, meaning in OF_CLIENTS.items()),
        *(f"  {name:<26}{meaning}, with --ip" for name, meaning in OF_ADDRESSES.items()),
        "",
        "A quota of a user and a client id together applies before that of the user, and this before that of the",
        "client id; a default applies where there is no other.",
    ]
)


class _Quota(Value):
    """The name of a quota, for completion with `=` or without."""

    def __init__(self, name: str, read: Any, ending: str) -> None:
        super().__init__(name, read)
        self._ending = ending

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[Any]:
        """The names that start with `incomplete`."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name + self._ending, help=meaning)
            for name, meaning in QUOTAS.items()
            if name.startswith(incomplete)
        ]


def _name(text: str) -> str:
    if text not in QUOTAS:
        raise click.BadParameter(f"{text!r} is none of {', '.join(QUOTAS)}")
    return text


def _setting(text: str) -> tuple[str, float]:
    name, value = name_and_value(text)
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e18:
        raise click.BadParameter(f"{text}: {value!r} is not a number above 0")
    return _name(name), number


def _entities() -> list[Option]:
    """For whom a quota is, with Kafka's own flags as second names."""
    return section(
        "for whom",
        [
            *exclusive(
                Option("--user", "a user", metavar="USER", type=USER),
                Flag("--default-user --user-defaults default_user", "all other users"),
            ),
            *exclusive(
                Option("--client-id --client client_id", "a client id", metavar="ID"),
                Flag(
                    "--default-client-id --client-defaults default_client_id",
                    "all other client ids",
                ),
            ),
            *exclusive(
                Option("--ip", "an IP address", metavar="ADDRESS"),
                Flag("--default-ip --ip-defaults default_ip", "all other addresses"),
            ),
        ],
    )


_LIST: Final = Command(
    "list",
    "list quotas",
    "security.quotas:list_quotas",
    [
        *_entities(),
        Flag(
            "--strict",
            "only of exactly these: --user alice is not for quotas of alice with a client id",
        ),
        *listing(),
    ],
    description=f"Lists the quotas that were set.\n\n{_TEXT}",
    epilog=examples("ottla quotas list", "ottla quotas list --user till"),
)
_SET: Final = Command(
    "set",
    "set quotas",
    "security.quotas:set_quotas",
    [
        Argument(
            "settings",
            "a quota and its value; repeatable",
            metavar="NAME=VALUE",
            nargs=-1,
            type=_Quota("name=value", _setting, "="),
        ),
        *_entities(),
        dry_run("check whether the broker would accept them; change nothing"),
        *connection(),
    ],
    description=f"Sets quotas.\n\n{_TEXT}",
    epilog=examples(
        "ottla quotas set --user till producer_byte_rate=1048576 consumer_byte_rate=2097152",
        "ottla quotas set --default-user --client-id report request_percentage=50",
        "ottla quotas set --default-ip connection_creation_rate=10",
    ),
    instead={"--add-config": "NAME=VALUE, without a flag"},
)
_REMOVE: Final = Command(
    "remove",
    "remove quotas",
    "security.quotas:remove",
    [
        Argument(
            "names",
            "the name of a quota",
            metavar="NAME",
            nargs=-1,
            type=_Quota("name", _name, ""),
        ),
        Flag("--all", "all quotas of it"),
        *_entities(),
        dry_run("only show what would be removed"),
        *connection(),
    ],
    epilog=examples(
        "ottla quotas remove --user till producer_byte_rate",
        "ottla quotas remove --default-ip --all",
    ),
    instead={"--delete-config": "NAME, without a flag"},
)

COMMAND: Final = Group(
    "quotas",
    SUMMARIES["quotas"],
    [_LIST, _SET, _REMOVE],
    instead={"add": "set", "alter": "set", "describe": "list", "delete": "remove"},
)
