"""`ottla certs`: certificates for development."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.security.client_settings import ClientSettings
from ottla.cli.commands.certs import CA_DAYS
from ottla.cli.commands.syntax import Arguments
from ottla.cli.exit_codes import DONE
from ottla.cli.terminal.output import Output, columns, say

if TYPE_CHECKING:
    from ottla.broker.security.development_certificates import CertificateFile

SHAPE: Final = columns(
    file="FILE", subject="SUBJECT", names="NAMES", expires="EXPIRES", state="STATE"
)
_SOON: Final = datetime.timedelta(days=30)


def make_ca(arguments: Arguments) -> int:
    """Make a CA."""
    from ottla.broker.security import development_certificates as certificates

    made = certificates.make_ca(
        Path(arguments.folder),
        days=arguments.days,
        name=arguments.name or certificates.CA_NAME,
        replace=arguments.replace,
    )
    Output("table").lines([_made(made)])
    return DONE


def make_server(arguments: Arguments) -> int:
    """Make the certificate of a broker, and print the options that use it."""
    from ottla.broker.security import development_certificates as certificates

    folder = Path(arguments.folder)
    names = arguments.names or certificates.LOCAL_NAMES
    _ensure_ca(folder)
    made = certificates.make_server(folder, names, days=arguments.days, replace=arguments.replace)
    settings = ClientSettings("SSL", ca=(folder / certificates.CA_FILE).absolute())
    Output("table").lines(
        [
            _made(made),
            "",
            "a broker with it:",
            f"  ottla serve --listen SSL://{_host(names[0])}:9092 \\",
            f"      --set ssl.keystore.type=PEM --set ssl.keystore.location={made.path}",
            *_options_of(settings),
        ]
    )
    return DONE


def make_client(arguments: Arguments) -> int:
    """Make the certificate of a client, and print the options that use it."""
    from ottla.broker.security import development_certificates as certificates

    folder = Path(arguments.folder)
    _ensure_ca(folder)
    made = certificates.make_client(
        folder, arguments.name, days=arguments.days, replace=arguments.replace
    )
    ca = (folder / certificates.CA_FILE).absolute()
    settings = ClientSettings("SSL", ca=ca, certificate=made.path.absolute())
    Output("table").lines(
        [
            _made(made),
            f"the broker, with the options below, knows this client as User:{made.subject}",
            "",
            "a broker asks clients for certificates with:",
            "  --set ssl.client.auth=required --set ssl.truststore.type=PEM \\",
            f"      --set ssl.truststore.location={folder / certificates.CA_FILE}",
            *_options_of(settings),
        ]
    )
    return DONE


def list_certificates(arguments: Arguments) -> int:
    """Show the certificates of a folder."""
    from ottla.broker.security import development_certificates as certificates

    output = Output(arguments.form)
    now = datetime.datetime.now(datetime.UTC)
    found = certificates.certificates_in(Path(arguments.folder))
    output.rows(SHAPE, [_row(each, now) for each in found])
    if not found and output.is_table:
        say(f"there are no certificates in {arguments.folder}")
    for each in found:
        if each.begins > now:
            say(f"Warning: {each.path} is not valid before {each.begins:%Y-%m-%dT%H:%M:%SZ}")
        elif each.expires <= now:
            say(f"Warning: {each.path} has expired")
        elif each.expires - now < _SOON:
            say(f"Warning: {each.path} expires in {(each.expires - now).days} days")
    return DONE


def _row(each: CertificateFile, now: datetime.datetime) -> Mapping[str, object]:
    state = "valid"
    if each.begins > now:
        state = "not yet valid"
    elif each.expires <= now:
        state = "expired"
    elif each.expires - now < _SOON:
        state = "expires soon"
    return {
        "file": str(each.path),
        "subject": each.subject,
        "names": list(each.names),
        "expires": each.expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "state": state,
        "is_ca": each.is_ca,
        "has_key": each.has_key,
    }


def _ensure_ca(folder: Path) -> None:
    """Make a CA where there is none."""
    from ottla.broker.security import development_certificates as certificates

    if not (folder / certificates.CA_FILE).exists():
        Output("table").lines([_made(certificates.make_ca(folder, days=CA_DAYS))])


def _made(each: CertificateFile) -> str:
    until = each.expires.strftime("%Y-%m-%d")
    names = f" for {', '.join(each.names)}" if each.names else ""
    key = f", with its key in {each.path.with_suffix('.key')}" if each.is_ca else " and key"
    what = "certificate of the CA" if each.is_ca else f"certificate of {each.subject}"
    return f"{each.path}: {what}{key}{names}, valid until {until}"


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else name.replace("*", "HOST")


def _options_of(settings: ClientSettings) -> list[str]:
    """The options of clients, by library."""
    libraries: dict[str, Mapping[str, str]] = {
        "clients of Ottla and of Java, and --command-config": settings.for_java(),
        "confluent-kafka, kcat and others on librdkafka": settings.for_librdkafka(),
        "kafka-python": settings.for_kafka_python(),
    }
    lines = []
    for name, options in libraries.items():
        lines += ["", f"{name}:", *(f"  {key}={value}" for key, value in options.items())]
    return lines
