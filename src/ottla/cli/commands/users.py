"""`ottla users`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Choice, Flag, Option, ValueType
from ottla.cli.commands.shared_options import (
    USER,
    connection,
    count_from,
    dry_run,
    examples,
    listing,
)
from ottla.cli.commands.syntax import Command, Group

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

_CREATE_TEXT: Final = """\
Creates a user who can log in with SCRAM. The password is asked for twice, or read from a file or from a pipe; it is
salted and hashed here, and never sent to the cluster. What the user may do then is up to `ottla acls`.
"""


class _Password(ValueType):
    """Where a password is, as @FILE: on a command line it would be seen by others, and kept by the shell."""

    name = "@file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name of the file."""
        if not value.startswith("@") or value == "@":
            self.fail(
                "a password on the command line is seen by others: write @FILE, @- for stdin, or leave it out",
                param,
                ctx,
            )
        return value[1:]


def _names(help_text: str) -> Argument:
    return Argument("names", help_text, nargs=-1, type=USER)


def _name() -> Argument:
    return Argument("name", "the name of the user", type=USER, metavar="USER")


def _password() -> Option:
    return Option(
        "--password password_file",
        "read the password from a file, or with @- from stdin; default: ask for it",
        metavar="@FILE",
        type=_Password(),
    )


def _mechanisms(help_text: str) -> Option:
    return Option("--mechanism mechanisms", help_text, type=Choice(*MECHANISMS), multiple=True)


def _iterations(help_text: str) -> Option:
    return Option("--iterations", help_text, type=count_from(1))


_CREATE: Final = Command(
    "create",
    "create a user with a password",
    "security.users:create",
    [
        _name(),
        _password(),
        _mechanisms("how the user logs in; default: both; repeatable"),
        _iterations("how often the password is hashed, 4096 to 16384; default: 4096"),
        *connection(),
    ],
    description=_CREATE_TEXT,
    epilog=examples(
        "ottla users create till",
        "ottla users create till --password @till.password --mechanism SCRAM-SHA-512",
        "pass show till | ottla users create till",
    ),
)
_LIST: Final = Command(
    "list",
    "list the users with a password",
    "security.users:list_users",
    [*listing()],
    description="Lists the users that have SCRAM credentials. Users of PLAIN, OAUTHBEARER and certificates are not "
    "kept in\nthe cluster.",
    epilog=examples("ottla users list"),
)
_DESCRIBE: Final = Command(
    "describe",
    "show how users log in, what they may do, and their quotas",
    "security.users:describe",
    [_names("the name of a user"), *listing()],
    description="Shows the SCRAM credentials of users, the ACLs that name them, and their quotas. Passwords are "
    "never shown: the\ncluster does not know them.",
    epilog=examples("ottla users describe till"),
)
_DELETE: Final = Command(
    "delete",
    "delete users, or some of their credentials",
    "security.users:delete",
    [
        _names("the name of a user"),
        _mechanisms("only the credential of this mechanism; repeatable"),
        Flag("--if-exists", "a user who does not exist is no error"),
        dry_run("only show what would be deleted"),
        *connection(),
    ],
    description="Deletes users: they cannot log in any more. ACLs and quotas that name them stay.",
    epilog=examples("ottla users delete till"),
)
_PASSWD: Final = Command(
    "passwd",
    "change the password of a user",
    "security.users:change_password",
    [
        _name(),
        _password(),
        _mechanisms("only for this mechanism; default: all that the user has; repeatable"),
        _iterations("how often the password is hashed; default: as before"),
        *connection(),
    ],
    description="Changes the password of a user. Connections that are open stay open; new ones need the new password.",
    epilog=examples("ottla users passwd till"),
)

COMMAND: Final = Group(
    "users",
    SUMMARIES["users"],
    [_CREATE, _LIST, _DESCRIBE, _DELETE, _PASSWD],
    instead={"add": "create", "remove": "delete", "alter": "passwd"},
)
