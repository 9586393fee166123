"""`ottla certs`."""

from __future__ import annotations

from typing import Final

from ottla.cli.commands import SUMMARIES
from ottla.cli.commands.options import Argument, Flag, Option
from ottla.cli.commands.shared_options import FILE, count_from, examples, form
from ottla.cli.commands.syntax import Command, Group

DEFAULT_FOLDER: Final = "./certs"
CA_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 365

_TEXT: Final = """\
A certificate authority (CA) for development: its key lies beside its certificate, so do not let strangers trust it.
All files are PEM; those with keys can be read by their owner only. No file is replaced unless --replace is given.
"""


def _folder() -> Option:
    return Option(
        "--dir folder",
        f"the folder of the files; default: {DEFAULT_FOLDER}",
        metavar="DIR",
        type=FILE,
        default=DEFAULT_FOLDER,
    )


def _days(default: int) -> Option:
    return Option(
        "--days", f"how long it is valid; default: {default}", type=count_from(1), default=default
    )


def _replace() -> Flag:
    return Flag("--replace", "replace files that exist")


_CA: Final = Command(
    "ca",
    "make the CA that signs the others",
    "security.certs:make_ca",
    [
        Option("--name", "the name of the CA; default: Ottla development CA", metavar="NAME"),
        _folder(),
        _days(CA_DAYS),
        _replace(),
    ],
    description=f"Makes ca.pem, which clients and brokers trust, and ca.key.\n\n{_TEXT}",
    epilog=examples("ottla certs ca"),
)
_SERVER: Final = Command(
    "server",
    "make the certificate of a broker",
    "security.certs:make_server",
    [
        Argument(
            "names",
            "a host name or IP address at which clients connect; default: localhost 127.0.0.1 ::1",
            nargs=-1,
            metavar="NAME",
        ),
        _folder(),
        _days(CERTIFICATE_DAYS),
        _replace(),
    ],
    description="Makes a file named after the first NAME, with the key and the certificate of a broker, and\n"
    "prints the options for brokers and clients. Without a CA in the folder it makes one.\n\n"
    + _TEXT,
    epilog=examples(
        "ottla certs server", "ottla certs server broker-1.example.com 10.0.0.7 --dir /etc/ottla"
    ),
)
_CLIENT: Final = Command(
    "client",
    "make the certificate of a client",
    "security.certs:make_client",
    [
        Argument("name", "the user that the client is", metavar="NAME"),
        _folder(),
        _days(CERTIFICATE_DAYS),
        _replace(),
    ],
    description="Makes NAME.pem, the key and the certificate of a client, for brokers with ssl.client.auth=required.\n"
    "The broker knows the client as User:CN=NAME, or by ssl.principal.mapping.rules. Without a CA in the\n"
    "folder it makes one.\n\n" + _TEXT,
    epilog=examples("ottla certs client till"),
)
_LIST: Final = Command(
    "list",
    "show certificates, and when they expire",
    "security.certs:list_certificates",
    [_folder(), form()],
    description="Shows the certificates of a folder, and warns of those that expire within 30 days or have expired.",
    epilog=examples("ottla certs list"),
)

COMMAND: Final = Group("certs", SUMMARIES["certs"], [_CA, _SERVER, _CLIENT, _LIST])
